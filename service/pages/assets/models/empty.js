// What the page shows where there is no model: the three calls that make one.

import { json, root } from "../api.js";
import { copyButton } from "../copy.js";
import { h } from "../dom.js";
import { key } from "../key.js";
import { newModel } from "./create.js";

const TAUGHT = { features: { outside: 4.5, wind: 2.0 }, label: 61.5, id: "mon-1" };
const CALLS = [
    ["Create a model: it only needs a task", " -X PUT", "models/boiler", { task: "regression" }],
    ["Teach it: each labelled row is predicted first, then learned", "", "models/boiler/feedback", TAUGHT],
    ["Ask it", "", "models/boiler/predict", { features: { outside: 5.0, wind: 2.0 } }],
];
const THREE = "Three calls make the first one. It appears on this page as soon as it exists.";
const DEMO = "A separate service, with models on streams that drift and change their features:";

/** The three calls, for a service without models; what a key may do decides whether they are shown. */
export async function firstModel() {
    const { scope, models } = await json("key");
    const none = models.length ? "This key covers no models yet" : "No models yet";
    if (scope !== "admin") return notice(none, mayNot(scope));
    const card = (title, ...children) =>
        h("div.card.first", h("header", h("h2", title)), h("div.inside.stack", children));
    const installed = h("p.muted.small", "If installed by make: .venv/bin/onepass demo.");
    return h("div.stack",
        card(none, h("p", h("button.button.primary", { type: "button", on: { click: newModel } }, "New model")),
            h("p.muted", THREE), callList()),
        card("Or watch some models at work", h("p.muted", DEMO), code("onepass demo"), installed),
    );
}

/** The same calls for a service that has models, or why they are not for this key. */
export async function calls() {
    const { scope } = await json("key");
    return scope === "admin" ? callList() : h("p.muted", mayNot(scope));
}

function mayNot(scope) {
    const may = scope === "read" ? "read" : "read and teach";
    return `This key may ${may}; creating models needs a key with the scope admin.`;
}

/** A card in place of the list. */
export function notice(title, ...children) {
    return h("div.card.empty.stack", title && h("h2", title), children.map((own) => h("div", own)));
}

/** What is shown where no name contains what was searched for; `clear` ends the search. */
export function nothingFound(search, clear) {
    const button = h("button.button", { type: "button", on: { click: clear } }, "Show all models");
    return notice(null, `No model’s name contains “${search}”.`, button);
}

function callList() {
    const secret = key() === null ? "" : ' -H "Authorization: Bearer $ONEPASS_API_KEY"';
    const text = (method, path, body) =>
        `curl${method} ${new URL(path, root)}${secret} \\\n  --json '${JSON.stringify(body)}'`;
    return h("ol.calls", CALLS.map(([said, ...call]) => h("li.stack.tight", h("span", said), code(text(...call)))));
}

/** Text with a button that copies it. */
const code = (text) => h("div.code", h("pre", { tabindex: "0" }, text), copyButton());
