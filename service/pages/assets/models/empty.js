/**
 * What the page shows where there is no model: the three calls that make one.
 */

import { json, root } from "../api.js";
import { copyButton } from "../copy.js";
import { key } from "../key.js";
import { h } from "../dom.js";

const CALLS = [
    ["Create a model: what is to be predicted is enough", "-X PUT", "models/boiler", { task: "regression" }],
    [
        "Teach it: a row with its label is predicted first, then learned",
        "",
        "models/boiler/feedback",
        { features: { outside: 4.5, wind: 2.0 }, label: 61.5, id: "mon-1" },
    ],
    ["Ask it", "", "models/boiler/predict", { features: { outside: 5.0, wind: 2.0 } }],
];

/** The three calls, for a service without models; what a key may do decides whether they are shown. */
export async function firstModel() {
    const { scope, models } = await json("key");
    if (scope !== "admin") {
        return h("div.card.empty.stack",
            h("h2", models.length ? "No model that this key may see" : "No models yet"),
            h("p", mayNotMake(scope)),
        );
    }
    return h("div.stack",
        h("div.card.first",
            h("header", h("h2", "No models yet")),
            h("div.inside.stack",
                h("p.muted", "Three calls make the first one. This page shows it as soon as it is there."),
                h("ol.calls", CALLS.map(call)),
            ),
        ),
        h("div.card.first",
            h("header", h("h2", "Or look at some at work")),
            h("div.inside.stack",
                h("p.muted", "A service of its own, with models on streams that drift and change their features:"),
                code("onepass demo"),
                h("p.muted.small", "Installed by make it is .venv/bin/onepass demo."),
            ),
        ),
    );
}

/** The same calls for a service that has models, or why they are not for this key. */
export async function calls() {
    const { scope } = await json("key");
    return scope === "admin" ? h("ol.calls", CALLS.map(call)) : h("p.muted", mayNotMake(scope));
}

function mayNotMake(scope) {
    const may = scope === "read" ? "look" : "look and teach";
    return `This key may ${may}; models are made with a key of scope admin.`;
}

/**
 * What is shown where no name contains what was searched for.
 * @param {string} search
 * @param {function(): void} clear
 */
export function nothingFound(search, clear) {
    return h("div.card.empty.stack",
        h("p", `No model’s name contains “${search}”.`),
        h("div", h("button.button", { type: "button", on: { click: clear } }, "Show all models")),
    );
}

function call([said, how, path, body]) {
    const secret = key() === null ? "" : ' -H "Authorization: Bearer $ONEPASS_API_KEY"';
    const method = how && ` ${how}`;
    const text = `curl${method} ${new URL(path, root)}${secret} \\\n  --json '${JSON.stringify(body)}'`;
    return h("li.stack.tight", h("span", said), code(text));
}

/** Text with a button that copies it. */
function code(text) {
    return h("div.code", h("pre", { tabindex: "0" }, text), copyButton());
}
