/**
 * What the list says of a model's score, and of how it compares with the best baseline.
 */

import { figure, percent } from "../format.js";

/** @param {{task: string}} model @returns {string} the name of its score */
export function scoreName({ task }) {
    return task === "classification" ? "accuracy" : "MSE";
}

/** A score of a model as text: accuracies as percentages. */
export function scoreText({ task }, value) {
    if (value === null || value === undefined) return "–";
    return task === "classification" ? accuracyText(value) : figure(value);
}

/** Near 100 % with more decimals: what is wrong now and then is not shown as never wrong. */
function accuracyText(share) {
    const wrong = 1 - share;
    const digits = wrong > 0 ? Math.min(4, Math.max(1, Math.floor(-Math.log10(wrong)) - 1)) : 1;
    return wrong > 0 && wrong < 5e-7 ? `>\u2009${percent(0.999999, 4)}` : percent(share, digits);
}

/**
 * The model's error beside its best baseline's: shares of answers that are wrong, or mean squared errors.
 *
 * @param {{task: string, score: number|null, baseline: number|null}} model
 * @returns {{part: number, kind: "good"|"bad"|"", text: string}|null} part: from -1 (much worse) over 0 (equal) to 1
 *     (no error at all); null where one of the two is not known
 */
export function comparison({ task, score, baseline }) {
    if (!Number.isFinite(score) || !Number.isFinite(baseline)) return null;
    const [own, other] = task === "classification" ? [1 - score, 1 - baseline] : [score, baseline];
    if (Math.abs(own - other) <= 1e-9 * Math.max(own, other)) return { part: 0, kind: "", text: "equal" };
    if (own < other) {
        const part = 1 - own / other;
        return { part, kind: "good", text: `${atLeast(part)} less` };
    }
    if (other <= 0) return { part: -1, kind: "bad", text: "baseline never wrong" };
    const more = own / other - 1;
    const text = more < 9.95 ? `${atLeast(more)} more` : `${times(own / other)} as much`;
    return { part: -Math.min(1, more), kind: "bad", text };
}

/** A share that is not 0, never shown as 0. */
function atLeast(share) {
    if (share < 0.001) return `<\u2009${percent(0.001)}`;
    return percent(share, share < 0.1 ? 1 : 0);
}

function times(ratio) {
    return ratio < 1000 ? `${Math.round(ratio)}\u202f×` : ">\u20091000\u202f×";
}
