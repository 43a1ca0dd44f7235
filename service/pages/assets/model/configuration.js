/**
 * The configuration: as JSON, and a form for what can be changed, which sends only what was changed.
 */

import { copyButton } from "../copy.js";
import { fill, h } from "../dom.js";
import { acting, answered, clear, say, sayer } from "./actions.js";
import { needing } from "./rights.js";
import { changesOf, settingsFields } from "./settings.js";

/**
 * Fill the part of the configuration.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function configuration(model) {
    const place = document.getElementById("configuration-inside");
    const text = h("pre", { tabindex: "0", role: "region", "aria-label": "The configuration as JSON" });
    const form = h("form.stack.settings");
    const said = sayer();
    const code = h("div.code", text, copyButton());
    fill(place, h("div", needing("admin", h("div.stack", form, said))), code);
    let base = null;
    model.when(["model"], ({ model: shown }) => {
        text.textContent = JSON.stringify(shown.config, null, 2);
        const labels = [...new Set([...(shown.config.labels ?? []), ...(shown.info.labels ?? [])])];
        const written = JSON.stringify([shown.config, labels]);
        if (written === base) return;
        if (base !== null && form.dataset.touched === "yes") {
            say(
                said,
                h("p.notice.warn",
                    "The settings have changed meanwhile; what you have entered is kept, and only that is sent.",
                ),
            );
            return;
        }
        base = written;
        drawForm(model, form, said, shown.config, labels);
    });
}

function drawForm(model, form, said, config, labels) {
    const fields = settingsFields(config, labels);
    const preview = h("code.preview");
    const submit = h("button.button.primary", { type: "submit", disabled: true }, "Change");
    const undo = h("button.button", { type: "button", disabled: true }, "Undo");
    const drawn = () => {
        const changes = changesOf(fields);
        const none = !Object.keys(changes).length;
        submit.disabled = undo.disabled = none;
        form.dataset.touched = none ? "no" : "yes";
        preview.textContent = none ? "nothing to send" : JSON.stringify(changes);
    };
    fill(
        form,
        h("div.form-grid", fields.map(({ element }) => element)),
        h("div.row", submit, undo, h("span.preview-line", h("span.muted.small", "PATCH "), preview)),
    );
    form.oninput = form.onchange = drawn;
    form.onsubmit = (event) => {
        event.preventDefault();
        acting(submit, () => send(model, form, said, fields), said).then(drawn);
    };
    undo.onclick = () => {
        clear(said);
        drawForm(model, form, said, config, labels);
    };
    drawn();
}

async function send(model, form, said, fields) {
    const body = changesOf(fields);
    if (!(await answered(form, said, model.path(), { method: "PATCH", body }))) return;
    form.dataset.touched = "no";
    await model.refresh("model");
    say(said, h("p.notice.good", `Changed: ${Object.keys(body).join(", ")}.`));
}
