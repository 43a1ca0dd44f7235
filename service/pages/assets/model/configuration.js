// The configuration: as JSON, and a form for what can be changed, which sends only what was changed.

import { copies } from "../copy.js";
import { fact, fill, folded, h, patch } from "../dom.js";
import { bytes, number, when } from "../format.js";
import { acting, needing, sayer, tell } from "./actions.js";
import { answered, entry } from "./fields.js";
import { labelsOf, termed } from "./words.js";

const LABELS_MAX = 50;

export function configuration(model, place) {
    const schema = JSON.parse(place.dataset.schema);
    const text = h("pre", { tabindex: "0", role: "region", "aria-label": "The configuration as JSON" });
    const copy = h("button.button.small.copy", "Copy");
    const about = h("dl.stats.small-stats");
    const said = sayer();
    const preview = h("code.preview");
    const button = h("button.button.primary", { type: "submit" }, "Change");
    const undo = h("button.button", { on: { click: () => draw() } }, "Undo");
    const grid = h("div.form-grid");
    let [fields, drawn] = [[], null];
    const changes = () => {
        const changed = fields.filter(([, own]) => JSON.stringify(own.value()) !== own.first);
        return Object.fromEntries(changed.map(([name, own]) => [name, own.value() ?? null])); // null: its default
    };
    const touched = () => Object.keys(changes()).length > 0;
    const offer = () => {
        button.disabled = undo.disabled = !touched();
        preview.textContent = touched() ? JSON.stringify(changes()) : "nothing to send";
    };
    const shown = ({ config, info }) => JSON.stringify([config, info.labels]);
    const draw = () => {
        drawn = shown(model.docs.model);
        fields = fieldsOf(schema, model.docs.model);
        fill(said);
        fill(grid, fields.map(([, { element }]) => element));
        offer();
    };
    const send = async () => {
        const body = changes();
        if (!(await answered(form, said, model.path(), { method: "PATCH", body }))) return;
        await model.refresh("model");
        draw();
        tell(said, `Changed: ${Object.keys(body).join(", ")}.`);
    };
    const submit = (event) => {
        event.preventDefault();
        acting(button, send, said).then(offer);
    };
    const line = h("span.grow", h("span.muted.small", "PATCH "), preview);
    const on = { input: offer, change: offer, submit };
    const form = h("form.stack", { on }, grid, h("div.row", button, undo, line));
    copies(copy);
    fill(place,
        about,
        needing("admin", folded("Change settings", h("div.stack", form, said))),
        folded("The configuration as JSON", h("div.code", text, copy)),
    );
    model.when(["model"], ({ model: now }) => {
        patch(about,
            fact("Created", when(now.created).slice(0, 16), when(now.created)),
            fact(termed("Version"), number(now.version)),
            fact(termed("Learner’s state"), bytes(now.info.state_bytes ?? 0)),
            fact(termed("Incarnation"), h("span.mono", now.incarnation)),
        );
        text.textContent = JSON.stringify(now.config, null, 2);
        if (shown(now) === drawn) return;
        if (touched()) tell(said, "The settings have changed in the meantime. Only what you changed is sent.", "warn");
        else draw();
    });
}

/** What is entered for each field that this model can change, by its name: single values first. */
function fieldsOf({ properties, $defs: defs }, { config, info }) {
    const classes = config.task === "classification";
    const labels = labelsOf({ config, info });
    const costs = Object.keys(config.class_costs ?? {}); // all of them: what is sent replaces them all
    const priced = [...new Set([...costs, ...labels.map(String)])].slice(0, Math.max(LABELS_MAX, costs.length));
    const known = { class_costs: priced, add_labels: labels, retire_labels: labels };
    known["labels_due.then"] = classes ? labels : [0];
    const possible = { class_costs: classes, retire_labels: classes, add_categories: false };
    possible.add_labels = Boolean(config.labels); // labels that are not declared need no adding
    const names = Object.keys(properties).filter((name) => possible[name] ?? true);
    const valueOf = (name) => config[name] ?? null;
    const made = names.map((name) => [name, entry(name, properties[name], { value: valueOf(name), defs, known })]);
    for (const [, own] of made) own.first = JSON.stringify(own.value());
    const grouped = ([, { element }]) => element.matches("fieldset");
    return [...made.filter((own) => !grouped(own)), ...made.filter(grouped)];
}
