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
        why ? h("details.folded", { open: true }, h("summary", "Why"), explanation(why, answer)) : null,
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

function explanation(found, answer) {
    return [contributions(found, answer), found.experts && experts(found), found.densities && typicality(found)];
}

function contributions({ base, features, sampled }, { prediction, probabilities: shares }) {
    const list = [...features].sort((one, other) => Math.abs(other.contribution) - Math.abs(one.contribution));
    const text = (value) => (value === null ? "" : ` = ${typeof value === "number" ? number(value) : value}`);
    const bar = ({ name, value, contribution }) =>
        ({ name: name + text(value), value: contribution, tone: contribution < 0 ? "tone-2" : "tone-1" });
    const shown = list.slice(0, SHOWN_MAX).map(bar);
    shown.push({ name: "(average row)", value: base, tone: base < 0 ? "tone-2" : "tone-1", faded: true });
    const score = shares ? `log odds of ${valueOf(prediction)}` : "prediction";
    const what = `What each feature adds to the ${score}, compared with an average row${sampled ? "; sampled" : ""}.`;
    return [h("p.help", what), bars(shown, { label: what }), more(list.length - SHOWN_MAX, "more features")];
}

function experts({ experts: list }) {
    const said = ({ prediction, probabilities: own }) => {
        if (!own) return valueOf(prediction);
        const [name, share] = Object.entries(own).sort(([, one], [, other]) => other - one)[0];
        return `${name} (${number(share, 2)})`;
    };
    const sorted = [...list].sort((one, other) => other.weight - one.weight).slice(0, SHOWN_MAX);
    const shown = sorted.map((own) => ({ name: own.expert, value: own.weight, text: said(own) }));
    const label = "The experts' predictions, by weight.";
    return h("details.folded", h("summary", label), bars(shown, { label, most: 1 }));
}

function typicality({ densities: { ambiguity } }) {
    const odd = ambiguity?.typicality ?? null;
    return odd !== null && h("p.help", `Typicality ${number(odd)}: near 0, the row is unlike all learned rows.`);
}
