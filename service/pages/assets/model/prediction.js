// A prediction as people read it: probabilities as bars, an interval, and the explanation the learner gives.

import { bars } from "../charts/bars.js";
import { more } from "../charts/frame.js";
import { fact, h } from "../dom.js";
import { number, percent } from "../format.js";

const SHOWN_MAX = 12;

/** Show an answer of predict; `before`: the answer for the same row before it was taught; `level`: of the interval. */
export function predictionShown(answer, before, level) {
    const { prediction, probabilities: found, prediction_id: id, explanation: why } = answer;
    return h("div.prediction",
        h("p.prediction-value", valueOf(prediction)),
        found ? probabilities(found, before?.probabilities) : numberFacts(answer, before, level),
        id ? h("p.small", "Waiting for its label as ", h("code", id)) : null,
        why ? h("details.folded", { open: true }, h("summary", "Why"), explanation(why)) : null,
    );
}

/** A prediction as text; there is none before the first label is known. */
export function valueOf(prediction) {
    if (prediction === null || prediction === undefined) return "no label is known yet";
    return typeof prediction === "number" ? number(prediction, 4) : String(prediction);
}

function probabilities(found, before) {
    const list = Object.entries(found).sort(([, one], [, other]) => other - one);
    const bar = ([name, value]) => ({ name, value, note: before && `was ${number(before[name])}` });
    const shown = list.slice(0, SHOWN_MAX).map(bar);
    return [bars(shown, { label: "Probabilities", most: 1 }), more(list.length - SHOWN_MAX, "more classes")];
}

function numberFacts({ std = null, interval }, before, level) {
    const known = interval ? `${number(interval[0])} to ${number(interval[1])}` : "after more rows are learned";
    return h("dl.facts",
        before && fact("Before", valueOf(before.prediction)),
        level !== null && fact(`Interval, ${percent(level, 0)}`, known),
        std !== null && fact("Standard deviation", number(std)),
    );
}

function explanation(found) {
    if (found.contributions) return contributions(found);
    if (found.experts) return experts(found);
    if (found.classes) return densities(found);
    const region = { tabindex: "0", role: "region", "aria-label": "Explanation" };
    return h("pre.raw", region, JSON.stringify(found, null, 1));
}

function contributions({ bias = null, contributions: given, class: label }) {
    const list = Object.entries(given).sort(([, one], [, other]) => Math.abs(other) - Math.abs(one));
    const bar = ([name, value]) => ({ name, value, tone: value < 0 ? "tone-2" : "tone-1" });
    const shown = list.slice(0, SHOWN_MAX).map(bar);
    if (bias !== null) shown.push({ ...bar(["(bias)", bias]), faded: true });
    const what = `What each column adds to the ${label === undefined ? "prediction" : `score of ${label}`}.`;
    return [h("p.help", what), bars(shown, { label: what }), more(list.length - SHOWN_MAX, "more columns")];
}

function experts({ classes, experts: list }) {
    const said = ({ prediction, probabilities: own }) => {
        if (!own) return valueOf(prediction);
        const at = own.indexOf(Math.max(...own));
        return `${classes[at]} (${number(own[at], 2)})`;
    };
    const sorted = [...list].sort((one, other) => other.weight - one.weight).slice(0, SHOWN_MAX);
    const shown = sorted.map((own) => ({ name: own.expert, value: own.weight, text: said(own) }));
    return [h("p.help", "The experts' predictions, by weight."), bars(shown, { label: "Experts", most: 1 })];
}

function densities({ classes, share, ambiguity }) {
    const shown = classes.slice(0, SHOWN_MAX).map((name, at) => ({ name: String(name), value: share?.[at] ?? null }));
    const odd = ambiguity?.typicality ?? null;
    return [
        h("p.help", "The share of the row's density by class."),
        bars(shown, { label: "Density by class", most: 1 }),
        odd !== null && h("p.help", `Typicality ${number(odd)}: near 0, the row is unlike all learned rows.`),
    ];
}
