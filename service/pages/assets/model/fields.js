// Fields of forms, by the JSON schema of what they hold; and what the service says is wrong with them.

import { json, line, wrong } from "../api.js";
import { fill, h, select, textInput } from "../dom.js";

// An entry has an `element`, and a `value()` as the API takes it: undefined where nothing is entered.

/** What a model or a challenger may be called. */
export const NAME = "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}";

/** What to say where an integer is left out: JSON.parse has rounded it, to another one. */
export const ROUNDED = "Browsers round integers from 2^53 on: send those through the API.";
export const isExact = (own) => !Number.isInteger(own) || Number.isSafeInteger(own);

let controls = 0;

/** A labelled control, whose `refuse(text)` shows what is wrong; `path`: of its field, as problems name it. */
export function field(label, control, { help, path } = {}) {
    controls += 1;
    const id = (control.id ||= `field-${controls}`);
    control.setAttribute("aria-describedby", help ? `${id}-help ${id}-error` : `${id}-error`);
    const about = help && h("p.help", { id: `${id}-help` }, help);
    const name = h("label", { for: id }, label);
    const named = control.type === "checkbox" ? h("div.check", control, name) : [name, control];
    return refusable(h("div.field", { data: { path } }, named, about), control, { id: `${id}-error` });
}

/** Give an element the method `refuse(text)`; `control`: what is wrong, where it is one control. */
export function refusable(element, control, how = {}) {
    const error = element.appendChild(h("p.error.optional", how));
    element.refuse = (text) => {
        fill(error, text);
        element.refused = Boolean(text);
        if (control) control.ariaInvalid = text ? "true" : null;
    };
    return element;
}

/** Send what a form holds, as `json` does; refusals are shown at its fields, else in `said`, and null comes back. */
export async function answered(form, said, to, how) {
    const fields = [...form.querySelectorAll("[data-path]")];
    for (const own of fields) own.refuse(null);
    try {
        return await json(to, how);
    } catch (error) {
        if (!error.errors?.length) throw error;
        const left = refuseFields(fields, error);
        if (left.length) fill(said, h("div.notice.bad", left.map((line) => h("p", line))));
        return null;
    }
}

/** Show errors at their fields that can be seen, by `data-path`, and give back lines for those that fit none. */
function refuseFields(fields, { status, message, errors }) {
    const left = [];
    // What exists already, or forbids it, is not a matter of the fields that differ.
    for (const error of status === 409 ? [{ field: "name", problem: message }] : errors) {
        const path = error.field;
        const within = (own) => path === own || path.startsWith(`${own}.`) || path.startsWith(`${own}[`);
        const fitting = fields.filter((own) => within(own.dataset.path) && !own.closest("[hidden]"));
        const [best] = fitting.sort((one, other) => other.dataset.path.length - one.dataset.path.length);
        if (best) best.refuse(path === best.dataset.path ? wrong(error) : line(error, message));
        else left.push(line(error, message));
    }
    fields.find(({ refused }) => refused)?.querySelector("input, select, textarea")?.focus();
    return left;
}

/** An input for a string, a number, a choice or a boolean, and its value; `none` names the choice of no value. */
export function scalar(schema, value, none) {
    const { enum: choices, type, format, anyOf, default: usual } = schema;
    if (choices) {
        const options = choices.map((own, at) => [at, String(own)]);
        const input = select(none ? [...options, ["", none]] : options, choices.indexOf(value ?? usual));
        return { input, value: () => choices[input.value] };
    }
    if (type === "boolean") {
        const input = h("input", { type: "checkbox", checked: value ?? usual ?? false });
        return { input, value: () => input.checked };
    }
    const ofNumbers = type === "number" || type === "integer";
    const kind = format === "date-time" ? "datetime-local" : ofNumbers ? "number" : "text";
    const step = ofNumbers ? "any" : kind === "text" ? null : "1";
    const input = textInput({ type: kind, step, value: value ?? "", placeholder: usual ?? "" });
    const read = (text) => { // a time in a year of five digits stays text, which the service refuses
        if (kind === "datetime-local") return Number.isNaN(Date.parse(text)) ? text : new Date(text).toISOString();
        return ofNumbers || (anyOf && Number.isFinite(Number(text))) ? Number(text) : text;
    };
    return { input, value: () => (input.value === "" ? undefined : read(input.value)) };
}

/**
 * What is entered for a schema, of the value at a path in the request: a field, or a group of fields for an object.
 * `defs`: what references name; `known`: by path, the names that an object without declared ones may have, or values of
 * a list that tell the type of others.
 */
export function entry(path, schema, given = {}) {
    const { value, known = {}, label = nameOf(path) } = given;
    const own = plain(schema, given.defs);
    if (own.additionalProperties && known[path]) {
        const properties = Object.fromEntries(known[path].map((name) => [name, own.additionalProperties]));
        return whole(path, { ...own, properties }, given, (name) => name);
    }
    if (own.properties) return whole(path, own, given, nameOf);
    if (own.additionalProperties) return pairs(path, own, value ?? {});
    const made = own.type === "array" ? lines : own.anyOf?.[0].const ? labelOr : scalar;
    const control = made(own, value ?? undefined, known[path]);
    return { element: field(label, control.input, { path, help: about(own) }), value: control.value };
}

/** A schema without null, and in place of a reference what that names. */
function plain({ $ref: ref, anyOf, ...rest }, defs) {
    if (ref) return plain({ ...defs[ref.split("/").at(-1)], ...rest }, defs);
    const kinds = anyOf?.filter(({ type }) => type !== "null") ?? [];
    if (kinds.length !== 1) return anyOf ? { anyOf, ...rest } : rest;
    return { ...plain(kinds[0], defs), ...rest, nullable: kinds.length < anyOf.length };
}

function nameOf(path) {
    const name = path.split(".").at(-1).replaceAll("_", " ");
    return name.charAt(0).toUpperCase() + name.slice(1);
}

/** The description of a schema; what stands between backticks is code. */
const about = ({ description }) => description?.split("`").map((part, at) => (at % 2 ? h("code", part) : part));

/** Fields that are one value, with a name of their own. */
function group(path, schema, children, head = nameOf(path)) {
    const help = schema.description && h("p.help", about(schema));
    const element = h("fieldset.field-group", { data: { path } }, h("legend", head), help, children);
    return refusable(element, null, { role: "alert" });
}

/** The object that entries are, by their names; what is left empty is left out. */
export function entered(entries) {
    const all = entries.map(([name, own]) => [name, own.value()]);
    return Object.fromEntries(all.filter(([, value]) => value !== undefined));
}

/** An object of fields; one that may be null is switched on and off. */
function whole(path, schema, { value, ...given }, labelOf) {
    const inner = ([name, own]) => {
        // In an object that is off, what may be null is on: switched on, it is not empty.
        const below = { ...given, label: labelOf(name), value: value ? (value[name] ?? null) : undefined };
        return [name, entry(`${path}.${name}`, own, below)];
    };
    const entries = Object.entries(schema.properties).map(inner);
    const grid = h("div.form-grid", entries.map(([, { element }]) => element));
    if (!schema.nullable) return { element: group(path, schema, grid), value: () => entered(entries) };
    const on = h("input", { type: "checkbox", checked: value !== null });
    const show = () => (grid.hidden = !on.checked);
    on.addEventListener("change", show);
    show();
    const element = group(path, schema, grid, h("label.check", on, nameOf(path)));
    return { element, value: () => (on.checked ? entered(entries) : null) };
}

/** An object of any names and texts. */
function pairs(path, schema, value) {
    const list = h("div.stack.tight");
    const input = (what, value) => textInput({ value, placeholder: what, "aria-label": `${nameOf(path)}: ${what}` });
    const add = (name = "", text = "") => {
        const remove = () => {
            row.remove();
            list.dispatchEvent(new Event("change", { bubbles: true }));
        };
        const button = h("button.button.quiet.small", { "aria-label": "Remove", on: { click: remove } }, "×");
        const row = h("div.pair-row", input("name", name), input("value", text), button);
        list.append(row);
    };
    for (const [name, text] of Object.entries(value)) add(name, text);
    const button = h("button.button.small", { on: { click: () => add() } }, "Add one");
    const rows = () => [...list.children].map((row) => [...row.querySelectorAll("input")].map((own) => own.value));
    const named = () => Object.fromEntries(rows().filter(([name]) => name !== ""));
    return { element: group(path, schema, [list, button]), value: named };
}

/** A label, or the word that stands for none, where nothing is entered. */
function labelOr({ anyOf: [{ const: word }] }, value, known = []) {
    const input = textInput({ value: value?.label ?? "", placeholder: word });
    return { input, value: () => (input.value === "" ? word : { label: typed(input.value, known) }) };
}

/** A list, one value per line; spaces around a value stay where it was there before. */
function lines(_, value = [], known = []) {
    const input = h("textarea.short", { spellcheck: "false", value: value.join("\n"), placeholder: "one per line" });
    const kept = (line) => (value.includes(line) ? line : line.trim());
    const all = () => input.value.split("\n").map(kept).filter(Boolean);
    return { input, value: () => all().map((line) => typed(line, known)) };
}

/** A value as people enter it: a number or a boolean where all that are known are, else text. */
export function typed(text, known) {
    const types = new Set(known.map((own) => typeof own));
    if (types.size !== 1 || types.has("string")) return text;
    if (types.has("number")) return Number.isFinite(Number(text)) && isExact(Number(text)) ? Number(text) : text;
    return { true: true, false: false }[text] ?? text;
}
