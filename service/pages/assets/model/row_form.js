/**
 * A row entered by hand: a control for each feature, made from its declaration, or the whole row as JSON.
 */

import { fill, h } from "../dom.js";
import { choice } from "./choice.js";
import { field } from "./actions.js";
import { featureOf } from "./words.js";

const CONTROLS_MAX = 40;

/** Controls for the features of a model, and the row they make. */
export class RowForm {
    constructor() {
        this.controls = [];
        this.written = null;
        this.mode = "form";
        this.area = h("textarea", { spellcheck: "false" });
        this.offered = "";
        this.areaField = field("The row's features, as JSON", this.area, { path: "features" });
        this.fields = h("div.row-fields");
        this.modes = choice(
            "How the row is entered",
            [["form", "Form"], ["json", "JSON"]],
            (mode) => this.show(mode),
        );
        this.element = h("div.stack", this.fields, this.areaField);
        this.draw({ current: [], next: null });
    }

    /**
     * Make controls for other features; the same ones keep what was entered.
     *
     * @param {{current: Array, next: Array|null}} spaces of GET /models/NAME/features
     * @param {boolean} [sparse] whether rows may hold any names, with numbers
     */
    draw({ current, next }, sparse = false) {
        const written = JSON.stringify([current, next, sparse]);
        if (written === this.written) return;
        this.written = written;
        const known = new Map(this.controls.map((own) => [own.name, own]));
        const made = (feature) => this.kept(known, featureOf(feature)) ?? control(featureOf(feature));
        const named = new Set(current.map((own) => featureOf(own).name));
        const further = (next ?? []).filter((own) => !named.has(featureOf(own).name));
        this.controls =
            [...current, ...further].length > CONTROLS_MAX ? [] : [...current.map(made), ...further.map(made)];
        const divide = h("p.label", "New features: they teach the mapping");
        const fields = this.controls.map((own) => own.element);
        fill(
            this.fields,
            fields.slice(0, current.length),
            further.length && fields.length ? divide : null,
            fields.slice(current.length),
        );
        const possible = this.controls.length > 0;
        this.modes.element.hidden = !possible;
        if (this.area.value === this.offered) this.area.value = this.offered = example(current, sparse);
        this.show(possible ? this.mode : "json");
    }

    /**
     * Fill in what is typical, where nobody has entered anything yet.
     *
     * @param {Record<string, number>} means of features
     */
    offer(means) {
        for (const control of this.controls) {
            if (means[control.name] !== undefined) control.offer(means[control.name]);
        }
        if (this.area.value === this.offered) this.area.value = this.offered = exampleOf(this.controls);
    }

    kept(known, feature) {
        const own = known.get(feature.name);
        return own && own.declared === JSON.stringify(feature) ? own : null;
    }

    show(mode) {
        if (mode === "json" && this.mode === "form" && this.controls.length)
            this.area.value = exampleOf(this.controls);
        this.mode = this.controls.length ? mode : this.mode;
        this.modes.offer(null, mode);
        this.fields.hidden = mode === "json";
        this.areaField.hidden = mode !== "json";
    }

    fromControls() {
        const entered = this.controls.map((own) => [own.name, own.value()]);
        return Object.fromEntries(entered.filter(([, value]) => value !== undefined));
    }

    /**
     * The row as the API takes it.
     *
     * @returns {Object|null} null where the JSON cannot be read, which is said at the field
     */
    row() {
        if (this.areaField.hidden) return this.fromControls();
        this.areaField.refuse(null);
        try {
            return JSON.parse(this.area.value || "{}");
        } catch (error) {
            this.areaField.refuse(`is not JSON: ${error.message}`);
            return null;
        }
    }
}

function example(current, sparse) {
    if (sparse) return '{"cheap": 1, "pills": 2}';
    if (!current.length) return '{"price": 12.5, "plan": "gold"}';
    return exampleOf(current.map(featureOf).map((feature) => ({ name: feature.name, ...made(feature) })));
}

function exampleOf(controls) {
    return JSON.stringify(Object.fromEntries(controls.map(({ name, value }) => [name, value() ?? null])), null, 1);
}

/** A control of a feature; its value is undefined where nothing was entered, which is a missing value. */
function control(feature) {
    const { input, value, write = () => {} } = made(feature);
    const element = field(feature.name, input, { path: `features.${feature.name}` });
    element.classList.toggle("wide", feature.type === "time");
    let entered = false;
    input.addEventListener("input", () => (entered = true));
    const offer = (typical) => entered || write(typical);
    return { name: feature.name, declared: JSON.stringify(feature), element, value, offer };
}

function made(feature) {
    if (feature.categories) return picked(feature.categories);
    if (feature.type === "boolean") return yesOrNo();
    if (feature.type === "time") return time();
    if (feature.type === "categorical") return text();
    return decimal(feature);
}

function picked(values, first = 0) {
    const input = h("select",
        values.map((value, at) => h("option", { value: String(at), selected: at === first }, String(value))),
        h("option", { value: "" }, "(missing)"),
    );
    return { input, value: () => (input.value === "" ? undefined : values[Number(input.value)]) };
}

function yesOrNo() {
    const { input, value } = picked([true, false], 1);
    return { input, value, write: (mean) => (input.value = mean >= 0.5 ? "0" : "1") };
}

function time() {
    const now = new Date(Date.now() - new Date().getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
    const input = h("input", { type: "datetime-local", step: "1", value: now });
    return { input, value: () => (input.value === "" ? undefined : new Date(input.value).toISOString()) };
}

function text() {
    const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
    return { input, value: () => (input.value === "" ? undefined : input.value) };
}

function decimal({ min, max }) {
    const short = (number) => String(Number(number.toPrecision(4)));
    const value = Number.isFinite(min) && Number.isFinite(max) ? short((min + max) / 2) : "";
    const input = h("input", { type: "number", step: "any", value, placeholder: "number" });
    const write = (mean) => (input.value = short(mean));
    return { input, value: () => (input.value === "" ? undefined : Number(input.value)), write };
}
