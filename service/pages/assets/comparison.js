// What a model is judged by, how that compares with the best baseline, and its light: how it is, in a word, a colour
// and a sentence; the same in the list and on the page of the model.

import { h } from "./dom.js";
import { figure, number, percent, share } from "./format.js";

/** Rows before an error says much, as in `sort=worst`. */
const ROWS_LEAST = 30;
/** A drift of so many rows ago is still news. */
const FRESH_ROWS = 1000;

/**
 * What a model, as GET /models has it, is judged by, beside its baseline, over its last rows: what its answers cost
 * where classes have costs, else its accuracy, or its squared error on the rows that the baseline predicted.
 */
export function judged({ task, mean_cost: cost, error, baseline_error: other }) {
    const name = Number.isFinite(cost) ? "cost per row" : task === "regression" ? "MSE" : "accuracy";
    const text = (value) => (name === "accuracy" && value !== null ? share(1 - value) : figure(value));
    return { name, own: text(error), other: text(other) };
}

/** An error compared with its baseline's; `part`: from -1 (much worse) to 1 (no error), null after too few rows. */
export function comparison(own, other, rows) {
    if (Number.isFinite(own) && rows < ROWS_LEAST) return { part: null, kind: "", text: "too early to compare" };
    if (!Number.isFinite(own) || !Number.isFinite(other)) return null;
    if (Math.abs(own - other) <= 1e-9 * Math.max(own, other)) return { part: 0, kind: "", text: "equal" };
    if (own < other) {
        const part = 1 - own / other;
        return { part, kind: "good", text: `${atLeast(part)} less` };
    }
    if (other <= 0) return { part: -1, kind: "bad", text: "baseline never wrong" };
    const more = own / other - 1;
    const times = more < 999 ? `${Math.round(more + 1)}\u202f×` : ">\u20091000\u202f×";
    const text = more < 9.95 ? `${atLeast(more)} more` : `${times} as much`;
    return { part: -Math.min(1, more), kind: "bad", text };
}

/** A part that is not 0, never shown as 0; one that is not 1, never as 1. */
function atLeast(part) {
    if (part < 0.001) return `<\u2009${percent(0.001)}`;
    if (part > 0.999 && part < 1) return `>\u2009${percent(0.999)}`;
    return percent(part, part < 0.1 || (part > 0.99 && part < 1) ? 1 : 0);
}

const FRESH = number(FRESH_ROWS);
/** What there is to say of a model: a colour, a word and a sentence of the first that holds. */
const LIGHTS = [
    ["bad", "Down", "It is out of service or lost, and learns nothing.", ({ phase }) => phase === "down"],
    ["", "New", "It has learned too few rows to be judged.", ({ found }) => !found || found.part === null],
    ["bad", "Poor", "Lately, it makes larger errors than the best simple rule.", ({ found }) => found.kind === "bad"],
    ["warn", "Changing", "Its features are being replaced.", ({ phase }) => phase === "overlap"],
    ["warn", "Drift", `Its data changed within the last ${FRESH} rows.`, ({ since }) => since < FRESH_ROWS],
    ["warn", "No gain", "Lately, it is no better than the best simple rule.", ({ found }) => found.kind === ""],
    ["warn", "Outdone", "A challenger predicts better and can be promoted.", ({ ahead }) => ahead > 0],
    ["good", "Good", `Lately, it beats the best simple rule; no drift in the last ${FRESH} rows.`, () => true],
];

/** The light of a model, as GET /models has it: a badge, and the sentence in an element of its own. */
export function light(model, sentenceIn) {
    const found = comparison(model.error, model.baseline_error, model.rows);
    const since = model.drift ? model.rows - model.drift.row : Infinity;
    const [kind, word, sentence] = LIGHTS.find(([, , , holds]) => holds({ ...model, found, since }));
    const dot = h("span.dot", { "aria-hidden": "true" });
    return [h(`span.badge.light${kind && `.${kind}`}`, { title: sentence }, dot, word), h(sentenceIn, sentence)];
}
