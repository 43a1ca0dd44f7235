/**
 * A prediction as people read it: probabilities as bars, an interval, and the explanation the learner gives.
 */

import { bars, number } from "../charts.js";
import { fact, h } from "../dom.js";
import { percent } from "../format.js";

const CLASSES_MAX = 12;
const PARTS_MAX = 12;

/**
 * Show an answer of predict.
 *
 * @param {Object} answer
 * @param {Object|null} before the answer for the same row before it was taught
 * @param {number|null} level of the interval that was asked for
 * @returns {HTMLElement}
 */
export function predictionShown(answer, before, level) {
    return h("div.prediction",
        h("p.prediction-value", valueOf(answer.prediction)),
        answer.probabilities
            ? probabilities(answer.probabilities, before?.probabilities)
            : numberFacts(answer, before, level),
        answer.prediction_id ? h("p.small", "Waits for its label as ", h("code", answer.prediction_id)) : null,
        answer.explanation ? explanation(answer.explanation) : null,
    );
}

/** A prediction as text; there is none before the first label is known. */
export function valueOf(prediction) {
    if (prediction === null || prediction === undefined) return "no label is known yet";
    return typeof prediction === "number" ? number(prediction, 4) : String(prediction);
}

function probabilities(found, before) {
    const list = Object.entries(found).sort(([, one], [, other]) => other - one);
    const shown = list.slice(0, CLASSES_MAX).map(([name, value]) => {
        const was = before?.[name];
        return { name, value, note: was === undefined ? undefined : `was ${number(was)}` };
    });
    const left = list.length - CLASSES_MAX;
    return [
        bars(shown, { label: "Probabilities", most: 1 }),
        left > 0 ? h("p.quiet.small", `and ${left} more classes`) : null,
    ];
}

function numberFacts({ std, interval }, before, level) {
    const known = interval ? `${number(interval[0])} to ${number(interval[1])}` : "not before more rows are learned";
    return h("dl.facts",
        before ? fact("Before", valueOf(before.prediction)) : null,
        level === null ? null : fact(`Interval, ${percent(level, 0)}`, known),
        std === undefined || std === null ? null : fact("Standard deviation", number(std)),
    );
}

// ------------------------------------------------------------------------------------------------ explanations

function explanation(found) {
    const part = found.contributions
        ? contributions(found)
        : found.experts
          ? experts(found)
          : found.classes
            ? densities(found)
            : [raw(found)];
    return h("details.folded", { open: true }, h("summary", "Why"), part);
}

function contributions({ bias, contributions: given, class: label }) {
    const list = Object.entries(given).sort(([, one], [, other]) => Math.abs(other) - Math.abs(one));
    const shown = list
        .slice(0, PARTS_MAX)
        .map(([name, value]) => ({ name, value, tone: value < 0 ? "tone-2" : "tone-1" }));
    if (bias !== undefined && bias !== null)
        shown.push({ name: "(bias)", value: bias, tone: bias < 0 ? "tone-2" : "tone-1", faded: true });
    const left = list.length - PARTS_MAX;
    const what =
        label === undefined
            ? "What each column adds to the prediction."
            : `What each column adds to the score of ${label}.`;
    return [
        h("p.help", what),
        bars(shown, { label: what }),
        left > 0 ? h("p.quiet.small", `and ${left} more columns`) : null,
    ];
}

function experts({ classes, experts: list }) {
    const said = (own) => {
        if (own.probabilities) {
            const at = own.probabilities.indexOf(Math.max(...own.probabilities));
            return `${classes[at]} (${number(own.probabilities[at], 2)})`;
        }
        return valueOf(own.prediction);
    };
    const sorted = [...list].sort((one, other) => other.weight - one.weight).slice(0, PARTS_MAX);
    return [
        h("p.help", "What each expert says, by its weight."),
        bars(
            sorted.map((own) => ({ name: own.expert, value: own.weight, text: said(own) })),
            { label: "Experts", most: 1 },
        ),
    ];
}

function densities({ classes, share, ambiguity }) {
    const shown = classes.slice(0, PARTS_MAX).map((name, at) => ({ name: String(name), value: share?.[at] ?? null }));
    const odd = ambiguity?.typicality;
    const text =
        odd === undefined || odd === null
            ? null
            : `Typicality ${number(odd)}: near 0 the row is unlike all that were learned.`;
    return [
        h("p.help", "The share of the row's density by class."),
        bars(shown, { label: "Density by class", most: 1 }),
        text ? h("p.help", text) : null,
    ];
}

function raw(found) {
    return h("pre.raw", { tabindex: "0", role: "region", "aria-label": "Explanation" }, JSON.stringify(found, null, 1));
}
