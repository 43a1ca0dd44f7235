/**
 * The configuration: as JSON, and a form for what can be changed, which sends only what was changed.
 */

import { json } from "../api.js";
import { fill, h } from "../dom.js";
import { acceptFields, acting, clear, refuseFields, say, sayer } from "./actions.js";
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
    fill(place, h("div", {}, needing("admin", h("div.stack", {}, form, said))), codeOf(text));
    let base = null;
    model.when(["model"], ({ model: shown }) => {
        text.textContent = JSON.stringify(shown.config, null, 2);
        const labels = [...new Set([...(shown.config.labels ?? []), ...(shown.info.labels ?? [])])];
        const written = JSON.stringify([shown.config, labels]);
        if (written === base) return;
        if (base !== null && form.dataset.touched === "yes") {
            say(
                said,
                h(
                    "p.notice.warn",
                    {},
                    "The settings have changed meanwhile; what you have entered is kept, and only that is sent.",
                ),
            );
            return;
        }
        base = written;
        drawForm(model, form, said, shown.config, labels);
    });
}

function codeOf(text) {
    const copy = h("button.button.small.copy", { type: "button" }, "Copy");
    copy.addEventListener("click", async () => {
        await navigator.clipboard.writeText(text.textContent);
        copy.textContent = "Copied";
        setTimeout(() => (copy.textContent = "Copy"), 1500);
    });
    return h("div.code", {}, text, navigator.clipboard ? copy : null);
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
        h(
            "div.form-grid",
            {},
            fields.map(({ element }) => element),
        ),
        h("div.row", {}, submit, undo, h("span.preview-line", {}, h("span.muted.small", {}, "PATCH "), preview)),
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
    acceptFields(form);
    const body = changesOf(fields);
    try {
        await json(model.path(), { method: "PATCH", body });
    } catch (error) {
        if (!error.errors?.length) throw error;
        const left = refuseFields(form, error);
        if (left.length)
            say(
                said,
                h(
                    "div.notice.bad",
                    {},
                    left.map((line) => h("p", {}, line)),
                ),
            );
        return;
    }
    form.dataset.touched = "no";
    await model.refresh("model", "metrics");
    say(said, h("p.notice.good", {}, `Changed: ${Object.keys(body).join(", ")}.`));
}
