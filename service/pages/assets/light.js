// The light of a model: how it is, in a word, a colour and a sentence; the same in the list and on the model's page.

import { comparison, judged } from "./comparison.js";
import { h } from "./dom.js";
import { number } from "./format.js";

/** A drift of so many rows ago is still news. */
const FRESH_ROWS = 1000;

/** What there is to say of a model, as GET /models has it: the first of what holds. */
const LIGHTS = [
    ["bad", "Down", "It is out of service and answers nothing.", ({ phase }) => phase === "down"],
    ["", "New", "It has learned too few rows to be judged.", ({ found }) => !found || found.part === null],
    ["bad", "Poor", "It makes larger errors than the best simple rule.", ({ found }) => found.kind === "bad"],
    ["warn", "Changing", "Its features are being replaced.", ({ phase }) => phase !== "steady"],
    [
        "warn", "Drift", `Its data changed within the last ${number(FRESH_ROWS)} rows.`,
        ({ drift, rows }) => drift && rows - drift.row < FRESH_ROWS,
    ],
    ["warn", "No gain", "It is no better than the best simple rule.", ({ found }) => found.kind === ""],
    ["warn", "Outdone", "A challenger predicts better and can be promoted.", ({ ahead }) => ahead > 0],
    [
        "good", "Good", `It beats the best simple rule; no drift in the last ${number(FRESH_ROWS)} rows.`,
        () => true,
    ],
];

export function lightOf(model) {
    const found = comparison(...judged(model).errors, model.rows);
    const [kind, word, sentence] = LIGHTS.find(([, , , holds]) => holds({ ...model, found }));
    return { kind, word, sentence };
}

/** The light as a badge. */
export function light({ kind, word, sentence }) {
    const how = { title: sentence };
    return h(`span.badge.light${kind && `.${kind}`}`, how, h("span.light-dot", { "aria-hidden": "true" }), word);
}
