// A prediction as people read it: probabilities as bars, an interval, and the explanation the learner gives.

import { bars } from "../charts/bars.js";
import { more } from "../charts/frame.js";
import { fact, folded, h } from "../dom.js";
import { labelText, number, percent, share } from "../format.js";

const SHOWN_MAX = 12;

/** Show an answer of predict; `before`: the answer for the same row before it was taught; `level`: of the interval. */
export function predictionShown(answer, before, level) {
    const { prediction, probabilities: found, prediction_id: id, explanation: why } = answer;
    return h("div.prediction",
        h("p.prediction-value", valueOf(prediction)),
        found ? probabilities(found, before?.probabilities) : numberFacts(answer, before, level),
        id && h("p.small", "Waiting for its label as ", h("code", id)),
        why && folded("Why", h("div.stack.tight", explanation(why, answer)), { open: true }),
    );
}

/** A prediction as text; there is none before the first label is known. */
export function valueOf(prediction) {
    if (prediction === null || prediction === undefined) return "no label is known yet";
    return typeof prediction === "number" ? number(prediction, 4) : labelText(prediction);
}

function probabilities(found, before) {
    const list = Object.entries(found).sort(([, one], [, other]) => other - one);
    const text = (value) => (value > 0.5 ? share(value) : number(value)); // neither is ever 0 or 1
    const note = (name) => before && `was ${text(before[name])}`;
    const bar = ([name, value]) => ({ name: labelText(name), value, text: text(value), note: note(name) });
    const shown = list.slice(0, SHOWN_MAX).map(bar);
    return [bars(shown, { label: "Probabilities", most: 1 }), more(list.length - SHOWN_MAX, "more")];
}

function numberFacts({ std = null, interval }, before, level) {
    const known = interval ? `${number(interval[0])} to ${number(interval[1])}` : "after more rows are learned";
    return h("dl.facts",
        before && fact("Before", valueOf(before.prediction)),
        level !== null && fact(`Interval, ${percent(level, 0)}`, known),
        std !== null && fact("Standard deviation", number(std)),
    );
}

function explanation(found, answer) {
    const odd = found.densities?.ambiguity?.typicality ?? null;
    return [
        contributions(found, answer),
        odd !== null && h("p.help", `Typicality ${number(odd)}: near 0, the row is unlike all learned rows.`),
        found.experts && experts(found.experts),
    ];
}

function contributions({ base, features, sampled }, { prediction, probabilities: shares }) {
    const list = [...features].sort((one, other) => Math.abs(other.contribution) - Math.abs(one.contribution));
    const text = (value) => (value === null ? "" : ` = ${typeof value === "number" ? number(value) : value}`);
    const bar = (name, value, faded) => ({ name, value, tone: value < 0 ? "series-2" : "series-1", faded });
    const shown = list.slice(0, SHOWN_MAX).map((own) => bar(own.name + text(own.value), own.contribution));
    shown.push(bar("(average row)", base, true));
    const score = shares ? `log odds of ${valueOf(prediction)}` : "prediction";
    const what = `What each feature adds to the ${score}, compared with an average row${sampled ? "; sampled" : ""}.`;
    return [h("p.help", what), bars(shown, { label: what }), more(list.length - SHOWN_MAX, "more")];
}

function experts(list) {
    const said = ({ prediction, probabilities: own }) => {
        const [top] = Object.entries(own ?? {}).sort(([, one], [, other]) => other - one); // none before the first row
        return top ? `${labelText(top[0])} (${number(top[1], 2)})` : valueOf(prediction);
    };
    const sorted = [...list].sort((one, other) => other.weight - one.weight).slice(0, SHOWN_MAX);
    const shown = sorted.map((own) => ({ name: own.expert, value: own.weight, text: said(own) }));
    const label = "The experts' predictions, by weight.";
    return folded(label, bars(shown, { label, most: 1 }));
}
