// The configuration: as JSON, and a form for what can be changed, which sends only what was changed.

import { copyButton } from "../copy.js";
import { fact, fill, h, patch } from "../dom.js";
import { bytes, number, when } from "../format.js";
import { acting, clear, needing, sayer, tell } from "./actions.js";
import { answered, entry } from "./fields.js";
import { termed } from "./words.js";

const LABELS_MAX = 50;

export function configuration(model, place) {
    const schema = JSON.parse(place.dataset.schema);
    const text = h("pre", { tabindex: "0", role: "region", "aria-label": "The configuration as JSON" });
    const form = h("form.stack.settings");
    const said = sayer();
    const about = h("dl.stats.small-stats");
    const folded = (title, ...inside) => h("details.folded", h("summary", title), inside);
    const code = folded("The configuration as JSON", h("div.code", text, copyButton()));
    fill(place, about, needing("admin", folded("Change settings", h("div.stack", form, said))), code);
    let base = null;
    model.when(["model"], ({ model: shown }) => {
        const { config, info } = shown;
        patch(about, aboutFacts(shown));
        text.textContent = JSON.stringify(config, null, 2);
        const labels = [...new Set([...(config.labels ?? []), ...(info.labels ?? [])])];
        const written = JSON.stringify([config, labels]);
        if (written === base) return;
        if (base !== null && form.dataset.touched === "yes") {
            const kept = "The settings have changed in the meantime. Only what you changed is sent.";
            tell(said, kept, "warn");
            return;
        }
        base = written;
        drawForm(model, form, said, () => fieldsOf(schema, config, labels));
    });
}

function aboutFacts({ created, version, incarnation, info }) {
    return [
        fact("Created", when(created).slice(0, 16), when(created)),
        fact(termed("Version"), number(version)),
        fact(termed("Learner’s state"), bytes(info.state_bytes ?? 0)),
        fact(termed("Incarnation"), h("span.mono", incarnation)),
    ];
}

/** What is entered for each field that this model can change, by its name: single values first. */
function fieldsOf({ properties, $defs: defs }, config, labels) {
    const classes = config.task === "classification";
    const known = { class_costs: labels.slice(0, LABELS_MAX), add_labels: labels, retire_labels: labels };
    const possible = { class_costs: classes, retire_labels: classes, add_categories: false };
    possible.add_labels = classes && config.labels;
    const names = Object.keys(properties).filter((name) => possible[name] ?? true);
    const made = names.map((name) => [name, entry(name, properties[name], { value: config[name], defs, known })]);
    for (const [, own] of made) own.first = JSON.stringify(own.value());
    const grouped = ([, { element }]) => element.matches("fieldset");
    return [...made.filter((own) => !grouped(own)), ...made.filter(grouped)];
}

function drawForm(model, form, said, made) {
    const fields = made();
    const changes = () => {
        const changed = fields.filter(([, own]) => JSON.stringify(own.value()) !== own.first);
        return Object.fromEntries(changed.map(([name, own]) => [name, own.value() ?? null])); // null: its default
    };
    const preview = h("code.preview");
    const submit = h("button.button.primary", { type: "submit" }, "Change");
    const undo = h("button.button", { type: "button" }, "Undo");
    const drawn = () => {
        const none = !Object.keys(changes()).length;
        submit.disabled = undo.disabled = none;
        form.dataset.touched = none ? "no" : "yes";
        preview.textContent = none ? "nothing to send" : JSON.stringify(changes());
    };
    const line = h("span.preview-line", h("span.muted.small", "PATCH "), preview);
    fill(form, h("div.form-grid", fields.map(([, { element }]) => element)), h("div.row", submit, undo, line));
    form.oninput = form.onchange = drawn;
    form.onsubmit = (event) => {
        event.preventDefault();
        acting(submit, () => send(model, form, said, changes()), said).then(drawn);
    };
    undo.onclick = () => {
        clear(said);
        drawForm(model, form, said, made);
    };
    drawn();
}

async function send(model, form, said, body) {
    if (!(await answered(form, said, model.path(), { method: "PATCH", body }))) return;
    form.dataset.touched = "no";
    await model.refresh("model");
    tell(said, `Changed: ${Object.keys(body).join(", ")}.`);
}
