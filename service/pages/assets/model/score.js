/**
 * The prequential score over rows: the window beside its baselines, what happened at which row, and the score now.
 */

import { bars, LineChart, number } from "../charts.js";
import { comparison } from "../comparison.js";
import { fact, fill, h, patch } from "../dom.js";
import { share } from "../format.js";
import { markDetails } from "./events.js";
import { choice } from "./choice.js";
import { BASELINES, markLabel, rowsText, SCORES } from "./words.js";

/**
 * By task: the scores that have a history, with the keys of what is drawn beside them; `paired`: the keys of the same
 * on the rows that the baseline predicted too, which are drawn in their place where they are known.
 */
const HISTORIES = {
    classification: [
        { key: "accuracy", overall: "overall", baselines: ["no_change", "majority"], bounds: [0, 1] },
        { key: "kappa", bounds: [-1, 1] },
    ],
    regression: [
        {
            key: "mse",
            overall: "overall",
            paired: { mse: "paired", overall: "paired_overall" },
            baselines: ["last_value"],
            bounds: [0, Infinity],
        },
        { key: "mae", baselines: ["last_value"], bounds: [0, Infinity] },
    ],
};
const SAID = {
    no_change: "no change repeats the last label",
    majority: "majority class says the most frequent one",
    last_value: "last value repeats the last label",
};
const BASE_TONES = ["tone-base", "tone-6"];
const COSTS_SHOWN = 3;

/**
 * Fill the part of the score.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function score(model) {
    const place = document.getElementById("score-inside");
    const now = h("div.score-now");
    const details = h("div.mark-details", { hidden: true });
    const chart = new LineChart({
        title: "Score over rows",
        file: `${model.name}-score`,
        height: 280,
        tools: true,
        onMarks: (marks, button) =>
            markDetails(details, marks.map(({ mark }) => mark), model.docs.drift, button),
    });
    let picked = null;
    let log = null;
    const which = choice("Score", [], (key) => ((picked = key), draw(model.docs)));
    const linear = choice(
        "Axis",
        [["linear", "Linear"], ["log", "Log"]],
        (key) => ((log = key === "log"), draw(model.docs)),
    );
    chart.frame.tools.append(linear.element, which.element);
    const draw = ({ model: shown, metrics }) => {
        const task = shown.config.task;
        // Accuracy is what a model with costs gives up: it is drawn where somebody asks for it.
        const first = HISTORIES[task][metrics.window.costs ? 1 : 0];
        const found = HISTORIES[task].find(({ key }) => key === picked) ?? first;
        which.offer(HISTORIES[task].map(({ key }) => [key, SCORES[key].name]), found.key);
        linear.element.hidden = task === "classification";
        const logarithmic = task === "regression" && (log ?? wide(metrics.history, found));
        linear.offer(null, logarithmic ? "log" : "linear");
        chart.frame.note(noteOf(metrics, found));
        chart.update({ ...shownOf(metrics, found, shown.rows), log: logarithmic });
    };
    fill(place, now, chart.element, details);
    model.when(["model", "metrics"], (docs) => {
        patch(now, scoreNow(docs.model.config, docs.metrics));
        draw(docs);
    });
}

/** What a point of the history has of a score, on the baseline's rows where that is known. */
function valueAt(point, key, { paired = {} }) {
    return point[paired[key]] ?? point[key] ?? null;
}

/** Whether errors span so much that a linear axis would show the largest alone. */
function wide(history, found) {
    const values = history
        .map((point) => valueAt(point, found.key, found))
        .filter((value) => value > 0)
        .sort((one, other) => one - other);
    if (values.length < 8) return false;
    return values.at(-1) > 30 * values[Math.floor(values.length / 2)];
}

function noteOf(metrics, { key, paired, baselines = [] }) {
    const every = metrics.history_every;
    const said = baselines.map((name) => SAID[name]).join(", ");
    const left = paired ? " Rows that they could not predict, as the first, are left out." : "";
    const thinned = metrics.marks_thinned ? ` ${metrics.marks_thinned} marks are left out, evenly.` : "";
    return (
        `${SCORES[key].name} of the last ${rowsText(metrics.window.size)}, each predicted before it was learned; ` +
        `a point every ${rowsText(every)}.${said && ` Baselines: ${said}.`}${left}${thinned}`
    );
}

function shownOf(metrics, found, rows) {
    const { key, overall, baselines = [], bounds } = found;
    const line = (own, name, tone, dashed = false) => ({
        key: own,
        name,
        tone,
        dashed,
        points: metrics.history.map((point) => [point.row, valueAt(point, own, found)]),
    });
    const series = [line(key, `Last ${rowsText(metrics.window.size)}`, "tone-1")];
    if (overall) series.push(line(overall, "All rows", "tone-2"));
    const drawn = overall ? baselines.filter((name) => metrics.history.some((point) => name in point)) : [];
    drawn.forEach((name, at) => series.push(line(name, BASELINES[name], BASE_TONES[at], true)));
    const left = baselines.filter((name) => !drawn.includes(name));
    return {
        series,
        references: key === "kappa" ? [{ key: "chance", name: "Chance", y: 0 }] : levels(metrics, key, left, rows),
        marks: marksOf(metrics),
        y: { bounds, least: bounds[1] === 1 ? 0.04 : 0 },
        empty: emptyText(rows, metrics.history_every),
    };
}

/** What the chart says before its first point. */
function emptyText(rows, every) {
    if (rows >= every) return `The chart begins within ${rowsText(every)}`; // the metrics were set back
    return rows ? `${rowsText(rows)}; the chart begins at row ${number(every)}` : "No rows yet";
}

/** Baselines without a history: their score of the window, over the rows of the window. */
function levels({ window }, key, names, rows) {
    const known = window.rows ?? window.size;
    return names
        .map((name) => ({
            key: `level ${name}`,
            name: `${BASELINES[name]}, last ${rowsText(known)}`,
            y: window.baselines?.[name]?.[key] ?? null,
            from: rows - known,
        }))
        .filter(({ y }) => y !== null);
}

function marksOf(metrics) {
    return metrics.marks.map((mark) => ({ x: mark.row, kind: mark.kind, label: markLabel(mark), mark }));
}

/** The score of the window, large, beside that of its baselines. */
function scoreNow(config, { window, paired }) {
    const { name, own, others, text, most, word, left = "" } = headline(config.task, window, paired?.window);
    const beside = others.map((one) => ({ ...one, tone: "tone-base" }));
    const list = [{ name: "This model", ...own, tone: "tone-1" }, ...beside];
    return [
        h("div.score-figure",
            h("p.score-value", { id: "score-value" }, text(own.value)),
            h("p.muted", `${name}, last ${rowsText(window.rows ?? window.size)}${left}`),
            besideBest(own, others, word, window.rows ?? window.size),
            costsText(config.class_costs),
        ),
        h("div.score-bars",
            bars(
                list.map((one) => ({ ...one, text: text(one.value) })),
                { label: `${name} beside baselines`, most },
            ),
        ),
        h("dl.score-more",
            further(config.task, window).map((key) => fact(SCORES[key].name, writtenAs(key)(window[key]))),
        ),
    ];
}

/**
 * What the model is judged by over the rows of its window: what its answers cost where some classes cost more than
 * others, else accuracy, or squared error on the rows that the baseline predicted too; `error`: less is better, `left`:
 * what rows are left out.
 */
function headline(task, { costs, baselines = {}, ...window }, paired) {
    if (costs) {
        const always = { name: `Always “${costs.label}”`, value: costs.constant, error: costs.constant };
        const own = { value: costs.mean, error: costs.mean };
        return { name: "Cost per row", own, others: costs.label === null ? [] : [always], text: number, word: "cost" };
    }
    const key = task === "classification" ? "accuracy" : "mse";
    const judgedBy = (value = null) => ({ value, error: key === "accuracy" && value !== null ? 1 - value : value });
    const others = Object.entries(baselines).map(([name, one]) => ({
        name: BASELINES[name] ?? name,
        ...judgedBy(one[key]),
    }));
    const most = key === "accuracy" ? 1 : undefined;
    const shown = { name: SCORES[key].name, others, text: writtenAs(key), most, word: "error" };
    if (!Number.isFinite(paired?.mse)) return { ...shown, own: judgedBy(window[key]) };
    const without = window.rows - paired.rows;
    const left = without > 0 ? `, without ${number(without)} that the baseline could not predict` : "";
    return { ...shown, own: judgedBy(paired.mse), left };
}

function writtenAs(key) {
    return key.endsWith("accuracy") ? share : number;
}

function further(task, window) {
    if (task === "regression") return ["mae", "r2", "bias"];
    return window.costs ? ["accuracy", "balanced_accuracy", "log_loss"] : ["kappa", "log_loss", "ece"];
}

/** How the error stands to that of the best baseline, as the list of models says it. */
function besideBest(own, others, word, rows) {
    if (own.error === null) return h("span.badge", "no rows scored yet");
    const [best] = others.filter(({ error }) => error !== null).sort((one, other) => one.error - other.error);
    const found = comparison(own.error, best?.error, rows);
    if (!found) return h("span.badge", "no baseline yet");
    if (found.part === null) return h("span.badge", found.text);
    const name = best.name.replace(/^[A-Z]/, (letter) => letter.toLowerCase());
    const text = {
        equal: `as much ${word} as ${name}`,
        "baseline never wrong": `${name} was never wrong`,
    }[found.text];
    const than = found.text.endsWith("as much") ? `${word} as` : `${word} than`;
    const said = `${text ?? `${found.text} ${than} ${name}`}, of the last ${rowsText(rows)}`;
    return h(`span.badge${found.kind && `.${found.kind}`}`, said);
}

/** What missing the dearest classes costs. */
function costsText(costs) {
    if (!costs) return null;
    const dearest = Object.entries(costs).sort(([, one], [, other]) => other - one);
    const shown = dearest.slice(0, COSTS_SHOWN).map(([label, cost]) => `${label} ${number(cost)}`);
    const past = "Earlier rows are counted at these costs, too.";
    return h("p.muted.small", `Cost of a miss: ${shown.join(", ")}, others 1. ${past}`);
}
