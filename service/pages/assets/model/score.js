// The prequential score over rows: the window beside its baselines, what happened at which row, and the score now.

import { bars } from "../charts/bars.js";
import { LineChart, wide } from "../charts/line.js";
import { comparison } from "../comparison.js";
import { choice, fact, fill, h, patch } from "../dom.js";
import { labelText, number, rowsText, share } from "../format.js";
import { markDetails } from "./drift.js";
import { BASELINES, SCORES, markLabel, scoreOf, termed } from "./words.js";

/** Scores on the rows that the baseline predicted too, which are drawn in place of others where they are known. */
const PAIRED = { mse: "paired", overall: "paired_overall" };
/** By task: the scores that have a history, with the keys of what is drawn beside them. */
const HISTORIES = {
    classification: [
        { key: "accuracy", overall: "overall", baselines: ["no_change", "majority"], bounds: [0, 1] },
        { key: "kappa", bounds: [-1, 1] },
    ],
    regression: [
        { key: "mse", overall: "overall", paired: PAIRED, baselines: ["last_value"], bounds: [0, Infinity] },
        { key: "mae", baselines: ["last_value"], bounds: [0, Infinity] },
    ],
};
const SAID = {
    no_change: "no change repeats the last label",
    majority: "majority class predicts the most frequent label",
    last_value: "last value repeats the last label",
};
const BASE_TONES = ["muted", "series-6"];
const AXES = [["linear", "Linear"], ["log", "Log"]];
const COSTS_SHOWN = 3;

export function score(model, place) {
    let [picked, scale] = [null, null];
    const now = h("div.score-now");
    const details = h("div.mark-details", { hidden: true });
    const which = choice("Score", [], (key) => ((picked = key), draw(model.docs)));
    const axis = choice("Axis", AXES, (key) => ((scale = key), draw(model.docs)));
    const chart = new LineChart({
        title: "Score over rows",
        file: `${model.name}-score`,
        height: 280,
        tools: [axis.element, which.element],
        onMarks: (marks, button) => markDetails(details, marks.map(({ mark }) => mark), model.docs.drift, button),
    });
    const draw = ({ model: { config, rows }, metrics }) => {
        const histories = HISTORIES[config.task];
        // Accuracy is what a model with costs gives up: it is drawn where somebody asks for it.
        const found = histories.find(({ key }) => key === picked) ?? histories[metrics.window.costs ? 1 : 0];
        const drawn = shownOf(metrics, found, rows);
        const shown = config.task === "regression" ? scale ?? (wide(drawn.series) ? "log" : "linear") : "linear";
        which.offer(histories.map(({ key }) => [key, SCORES[key]]), found.key);
        axis.element.hidden = config.task === "classification";
        axis.offer(AXES, shown);
        chart.note(noteOf(metrics, found));
        chart.update({ ...drawn, log: shown === "log" });
    };
    fill(place, now, chart.element, details);
    model.when(["model"], (docs) => {
        patch(now, scoreNow(docs.model.config, docs.metrics));
        draw(docs);
    });
}

/** What a point of the history has of a score, on the baseline's rows where that is known. */
const valueAt = (point, key, { paired = {} }) => point[paired[key]] ?? point[key] ?? null;

function noteOf(metrics, { key, paired, baselines = [] }) {
    const said = baselines.map((name) => SAID[name]).join(", ");
    const left = paired ? " Rows that they could not predict, such as the first, are left out." : "";
    const thinned = metrics.marks_thinned ? ` ${metrics.marks_thinned} marks are left out, evenly.` : "";
    return (
        `${SCORES[key]} of the last ${rowsText(metrics.window.size)}, each predicted before it was learned; ` +
        `a point every ${rowsText(metrics.history_every)}.${said && ` Baselines: ${said}.`}${left}${thinned}`
    );
}

function shownOf({ history, history_every: every, window, ...metrics }, found, rows) {
    const { key, overall, baselines = [], bounds } = found;
    const points = (own) => history.map((point) => [point.row, valueAt(point, own, found)]);
    const line = (own, name, tone, stroke) => ({ key: own, name, tone, stroke, points: points(own) });
    const drawn = overall ? baselines.filter((name) => history.some((point) => name in point)) : [];
    // Baselines without a history: their score of the window, over the rows of the window.
    const known = window.rows ?? window.size;
    const level = (name) => ({
        key: `level ${name}`,
        name: `${BASELINES[name]}, last ${rowsText(known)}`,
        y: window.baselines?.[name]?.[key] ?? null,
        from: rows - known,
    });
    const levels = baselines.filter((name) => !drawn.includes(name)).map(level);
    const soon = `The chart begins within ${rowsText(every)}`; // the metrics were set back
    const begins = rows >= every ? soon : `${rowsText(rows)}; the chart begins at row ${number(every)}`;
    return {
        series: [
            line(key, `Last ${rowsText(window.size)}`, "series-1"),
            ...(overall ? [line(overall, "All rows", "series-2")] : []),
            ...drawn.map((name, at) => line(name, BASELINES[name], BASE_TONES[at], "dashed")),
        ],
        references: key === "kappa" ? [{ key: "chance", name: "Chance", y: 0 }] : levels,
        marks: metrics.marks.map((mark) => ({ x: mark.row, kind: mark.kind, label: markLabel(mark), mark })),
        bounds,
        least: bounds[1] === 1 ? 0.04 : 0,
        empty: rows ? begins : "No rows yet",
    };
}

/** The score of the window, large, beside that of its baselines. */
function scoreNow({ task, class_costs: costs }, { window, paired, served }) {
    const found = headline(task, window, paired?.window);
    const { name, own, others, text, most, left = "" } = found;
    const bar = (one, at) => ({ ...one, text: text(one.value), tone: at ? "muted" : "series-1" });
    const list = [{ name: "This model", value: own }, ...others].map(bar);
    const rows = window.rows ?? window.size;
    const score = (key) => fact(termed(SCORES[key]), writtenAs(key)(window[key]));
    return [
        h("div.score-figure",
            h("p.score-value", { id: "score-value" }, text(own)),
            h("p.muted", `${name}, last ${rowsText(rows)}${left}`),
            besideBest(found, rows),
            costsText(costs),
            servedText(served),
        ),
        h("div", bars(list, { label: `${name} beside baselines`, most })),
        h("dl.facts.score-more", further(task, window).map(score)),
    ];
}

/**
 * What the model is judged by, as in the list, over the rows of its window; `most`: the best, where less is worse;
 * `left`: what rows are left out.
 */
export function headline(task, { costs, baselines = {}, ...window }, paired) {
    if (costs) {
        const always = { name: `Always “${costs.label}”`, value: costs.constant };
        const others = costs.label === null ? [] : [always];
        return { name: "Cost per row", own: costs.mean, others, text: number, word: "cost" };
    }
    const key = scoreOf(task);
    const baseline = ([name, one]) => ({ name: BASELINES[name] ?? name, value: one[key] ?? null });
    const others = Object.entries(baselines).map(baseline);
    const most = key === "mse" ? undefined : 1;
    const shown = { name: SCORES[key], others, text: writtenAs(key), word: "error", most };
    if (!Number.isFinite(paired?.mse)) return { ...shown, own: window[key] ?? null };
    const without = window.rows - paired.rows;
    const left = without > 0 ? `, without ${number(without)} that the baseline could not predict` : "";
    return { ...shown, own: paired.mse, left };
}

const writtenAs = (key) => (key.endsWith("accuracy") ? share : number);

function further(task, window) {
    if (task === "regression") return ["mae", "r2", "bias"];
    return window.costs ? ["accuracy", "balanced_accuracy", "log_loss"] : ["kappa", "log_loss", "ece"];
}

/** The error of what the model is judged by, and the best baseline with its error; the model outside is none. */
export function errorsOf({ own, others, most }) {
    const error = (value) => (most && value !== null ? most - value : value);
    const known = others.filter(({ name, value }) => value !== null && name !== BASELINES.served);
    const errors = known.map(({ name, value }) => ({ name, error: error(value) }));
    return [error(own), errors.sort((one, other) => one.error - other.error)[0]];
}

/** How the error stands to that of the best baseline, as the list of models says it. */
function besideBest(judged, rows) {
    const { word } = judged;
    const [error, best] = errorsOf(judged);
    if (error === null) return h("span.badge", "no rows scored yet");
    const found = comparison(error, best?.error, rows);
    if (!found) return h("span.badge", "no baseline yet");
    if (found.part === null) return h("span.badge", found.text);
    const name = best.name.replace(/^[A-Z]/, (letter) => letter.toLowerCase());
    const than = found.text.endsWith("as much") ? "as" : "than";
    const special = { equal: `as much ${word} as ${name}`, "baseline never wrong": `${name} was never wrong` };
    const text = special[found.text] ?? `${found.text} ${word} ${than} ${name}`;
    return h(`span.badge${found.kind && `.${found.kind}`}`, `${text} over the last ${rowsText(rows)}`);
}

/** Which of the two is better: this model, or the one outside whose predictions come with the rows. */
function servedText(found) {
    if (!found?.rows) return null;
    const { better, since, rows, difference: { low, high } } = found;
    const interval = `the difference in loss lies between ${number(low)} and ${number(high)}`;
    if (!better) return h("p.help", `Your model and this one: no clear winner after ${rowsText(rows)}; ${interval}.`);
    const who = better === "model" ? "This model is better than yours" : "Your model is better than this one";
    return h("p.help", `${who} with 95\u202f% confidence since row ${number(since)}; ${interval}.`);
}

/** What missing the dearest classes costs. */
function costsText(costs) {
    if (!costs) return null;
    const dearest = Object.entries(costs).sort(([, one], [, other]) => other - one);
    const shown = dearest.slice(0, COSTS_SHOWN).map(([label, cost]) => `${labelText(label)} ${number(cost)}`);
    return h("p.muted.small", `Cost of a miss: ${shown.join(", ")}, others 1. Earlier rows also count at these costs.`);
}
