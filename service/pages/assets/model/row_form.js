// A row entered by hand: a control for each feature, made from its declaration, or the whole row as JSON.

import { choice, fill, h } from "../dom.js";
import { ROUNDED, entered, field, isExact, scalar } from "./fields.js";
import { featureOf } from "./words.js";

const CONTROLS_MAX = 40;
const MODES = [["form", "Form"], ["json", "JSON"]];

/** Controls for the features of a model, and the row they make. */
export class RowForm {
    constructor() {
        Object.assign(this, { controls: [], mode: "form", offered: "" });
        this.area = h("textarea", { spellcheck: "false" });
        this.areaField = field("The row's features, as JSON", this.area, { path: "features" });
        this.fields = h("div.row-fields");
        this.modes = choice("How the row is entered", MODES, (mode) => this.show(mode));
        this.element = h("div.stack", this.fields, this.areaField);
        this.draw({ current: [], next: null });
    }

    /** Make controls for other features; `sparse`: rows may hold any names; `needed`: no current value may lack. */
    draw({ current, next }, { sparse = false, needed = false } = {}) {
        const written = JSON.stringify([current, next, sparse, needed]);
        if (written === this.written) return;
        this.written = written;
        const present = current.map(featureOf);
        const names = new Set(present.map(({ name }) => name));
        const further = (next ?? []).map(featureOf).filter(({ name }) => !names.has(name));
        const all = [...present, ...further];
        const known = new Map(this.controls.map((own) => [own.declared, own]));
        const made = (feature) => {
            const old = names.has(feature.name);
            const how = [feature, needed && old, !old];
            return known.get(JSON.stringify(how)) ?? control(...how);
        };
        this.controls = all.length > CONTROLS_MAX ? [] : all.map(made);
        const elements = this.controls.map(({ element }) => element);
        const own = elements.splice(0, present.length);
        fill(this.fields, own, elements.length > 0 && h("p.label", "New features, for learning the mapping"), elements);
        this.modes.element.hidden = !this.controls.length;
        if (this.area.value === this.offered) this.area.value = this.offered = example(present, sparse);
        this.show(this.controls.length ? this.mode : "json");
    }

    /** Fill in what is typical, the means of features by name, where nobody has entered anything yet. */
    offer(means) {
        for (const own of this.controls) if (means[own.name] !== undefined) own.offer(means[own.name]);
        if (this.area.value !== this.offered) return;
        const typical = (name, value) => (typeof value === "number" ? Number(short(means[name] ?? value)) : value);
        this.area.value = this.offered = JSON.stringify(JSON.parse(this.offered), typical, 1);
    }

    show(mode) {
        const made = mode === "json" && this.mode === "form" && this.controls.length && exampleOf(this.controls);
        if (made && made !== this.made) this.area.value = this.made = made; // else what was entered as JSON stays
        if (this.controls.length) this.mode = mode;
        this.modes.offer(MODES, mode);
        this.fields.hidden = mode === "json";
        this.areaField.hidden = mode !== "json";
    }

    fromControls() {
        return entered(this.controls.map((own) => [own.name, own]));
    }

    /** The row as the API takes it; null where a value lacks or cannot be read, which is said at its field. */
    row() {
        if (this.areaField.hidden) {
            const lacking = this.controls.filter((own) => own.lacks());
            lacking[0]?.element.querySelector("input").focus();
            return lacking.length ? null : this.fromControls();
        }
        this.areaField.refuse(null);
        try {
            return JSON.parse(this.area.value || "{}");
        } catch (error) {
            this.areaField.refuse(`is not JSON: ${error.message}`);
            return null;
        }
    }
}

function example(features, sparse) {
    if (sparse) return '{"cheap": 1, "pills": 2}';
    return features.length ? exampleOf(features.map((own) => control(own))) : '{"price": 12.5, "plan": "gold"}';
}

function exampleOf(controls) {
    const sent = controls.filter(({ empty, value }) => !empty || value() !== undefined);
    return JSON.stringify(Object.fromEntries(sent.map(({ name, value }) => [name, value() ?? null])), null, 1);
}

/** A control of a feature; its value is undefined where nothing was entered, which is a missing value. */
function control(feature, needed = false, empty = false) {
    const { name, type, categories: all } = feature;
    const categories = all?.filter(isExact);
    const { input, value } = scalar(...schemaOf({ ...feature, categories }), needed ? undefined : "(missing)");
    if (empty) input.value = ""; // what nobody entered must not teach the mapping
    const help = categories?.length < all?.length && ROUNDED;
    const element = field(name, input, { path: `features.${name}`, help });
    element.classList.toggle("wide", type === "time");
    let touched = false;
    input.addEventListener("input", () => (touched = true));
    const offer = (mean) => {
        if (!touched && type === "boolean") input.value = Number(mean < 0.5);
        if (!touched && type === "numeric") input.value = short(mean);
    };
    const lacks = () => {
        const lacking = !input.validity.valid || (needed && value() === undefined); // not a number: it has no value
        element.refuse(lacking ? `Enter a ${type === "numeric" ? "number" : type === "time" ? "time" : "text"}` : null);
        return lacking;
    };
    return { name, declared: JSON.stringify([feature, needed, empty]), empty, element, value, offer, lacks };
}

/** What a feature may hold, as a schema, and a value to begin with. */
function schemaOf({ type, categories, min, max }) {
    if (categories) return [{ enum: categories }, categories[0]];
    if (type === "boolean") return [{ enum: [true, false] }, false];
    if (type === "categorical") return [{ type: "string" }, "other"];
    if (type === "time") return [{ format: "date-time" }, new Date().toLocaleString("sv").replace(" ", "T")];
    const middle = Number.isFinite(min) && Number.isFinite(max) ? short((min + max) / 2) : "0";
    return [{ type: "number", default: "number" }, middle];
}

const short = (value) => String(Number(value.toPrecision(4)));
