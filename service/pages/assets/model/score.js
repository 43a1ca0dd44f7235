/**
 * The prequential score over rows: the window beside its baselines, what happened at which row, and the score now.
 */

import { bars, fraction, LineChart, number } from "../charts.js";
import { fill, h, patch } from "../dom.js";
import { markDetails } from "./events.js";
import { choice } from "./choice.js";
import { BASELINES, markLabel, rowsText, SCORES } from "./words.js";

/** By task: the scores that have a history, with the keys of their overall value and baseline in it. */
const HISTORIES = {
    classification: [
        { key: "accuracy", overall: "overall", baseline: "no_change", level: "majority", bounds: [0, 1] },
        { key: "kappa", bounds: [-1, 1] },
    ],
    regression: [
        { key: "mse", overall: "overall", baseline: "last_value", bounds: [0, Infinity] },
        { key: "mae", bounds: [0, Infinity] },
    ],
};

const SHORT = { no_change: "No change", majority: "Majority", last_value: "Last value" };

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
            markDetails(
                details,
                marks.map(({ mark }) => mark),
                model.docs.drift,
                button,
            ),
    });
    let picked = null;
    let log = null;
    const which = choice("Score", [], (key) => ((picked = key), draw(model.docs)));
    const linear = choice(
        "Axis",
        [
            ["linear", "Linear"],
            ["log", "Log"],
        ],
        (key) => ((log = key === "log"), draw(model.docs)),
    );
    chart.frame.tools.append(linear.element, which.element);
    const draw = ({ model: shown, metrics }) => {
        const task = shown.config.task;
        const found = HISTORIES[task].find(({ key }) => key === picked) ?? HISTORIES[task][0];
        which.offer(
            HISTORIES[task].map(({ key }) => [key, SCORES[key].name]),
            found.key,
        );
        linear.element.hidden = task === "classification";
        const logarithmic = task === "regression" && (log ?? wide(metrics.history, found.key));
        linear.offer(null, logarithmic ? "log" : "linear");
        chart.frame.note(noteOf(metrics, found));
        chart.update({ ...shownOf(metrics, found), log: logarithmic });
    };
    fill(place, now, chart.element, details);
    model.when(["model", "metrics"], (docs) => {
        patch(now, scoreNow(docs.model.config.task, docs.metrics));
        draw(docs);
    });
}

/** Whether errors span so much that a linear axis would show the largest alone. */
function wide(history, key) {
    const values = history
        .map((point) => point[key])
        .filter((value) => value > 0)
        .sort((one, other) => one - other);
    if (values.length < 8) return false;
    return values.at(-1) > 30 * values[Math.floor(values.length / 2)];
}

function noteOf(metrics, { key }) {
    const every = metrics.history_every;
    const thinned = metrics.marks_thinned ? ` ${metrics.marks_thinned} marks are left out, evenly.` : "";
    return (
        `${SCORES[key].name} of the last ${rowsText(metrics.window.size)}, each predicted before it was learned; ` +
        `a point every ${rowsText(every)}.${thinned}`
    );
}

function shownOf(metrics, { key, overall, baseline, level, bounds }) {
    const line = (own, name, tone, dashed = false) => ({
        key: own,
        name,
        tone,
        dashed,
        points: metrics.history.map((point) => [point.row, point[own] ?? null]),
    });
    const series = [line(key, `Last ${rowsText(metrics.window.size)}`, "tone-1")];
    if (overall) series.push(line(overall, "All rows", "tone-2"));
    if (baseline) series.push(line(baseline, BASELINES[baseline], "tone-base", true));
    return {
        series,
        references: levels(metrics, key, level),
        marks: marksOf(metrics),
        y: { bounds, least: bounds[1] === 1 ? 0.04 : 0 },
    };
}

/** Baselines without a history, as they are now. */
function levels(metrics, key, level) {
    if (key === "kappa") return [{ key: "chance", name: "Chance", y: 0 }];
    const name = level ?? "last_value";
    const value = level || key === "mae" ? metrics.baselines[name]?.[key] : null;
    return value === null || value === undefined
        ? []
        : [{ key: "level", name: `${BASELINES[name]}, all rows`, y: value }];
}

function marksOf(metrics) {
    return metrics.marks.map((mark) => ({ x: mark.row, kind: mark.kind, label: markLabel(mark), mark }));
}

/** The score of the window, large, beside that of its baselines. */
function scoreNow(task, metrics) {
    const key = task === "classification" ? "accuracy" : "mse";
    const { window } = metrics;
    const baselines = Object.entries(window.baselines ?? {}).map(([name, own]) => ({ name, value: own[key] }));
    const value = window[key];
    const written = key === "accuracy" ? fraction : number;
    const list = [{ name: "This model", value, text: written(value), tone: "tone-1" }].concat(
        baselines.map(({ name, value: own }) => ({
            name: SHORT[name] ?? name,
            value: own,
            text: written(own),
            tone: "tone-base",
        })),
    );
    return [
        h(
            "div.score-figure",
            {},
            h("p.score-value", { id: "score-value" }, written(value)),
            h("p.muted", {}, `${SCORES[key].name}, last ${rowsText(window.rows ?? window.size)}`),
            comparison(key, value, baselines),
        ),
        h(
            "div.score-bars",
            {},
            bars(list, { label: `${SCORES[key].name} beside baselines`, most: key === "accuracy" ? 1 : undefined }),
        ),
        h(
            "dl.score-more",
            {},
            more(task).map((own) => h("div", {}, h("dt", {}, SCORES[own].name), h("dd", {}, written(window[own])))),
        ),
    ];
}

function more(task) {
    return task === "classification" ? ["kappa", "log_loss", "ece"] : ["mae", "r2", "bias"];
}

/** How the score stands to the best of its baselines. */
function comparison(key, value, baselines) {
    const known = baselines.filter((own) => own.value !== null && own.value !== undefined);
    if (value === null || value === undefined || !known.length) return h("span.badge", {}, "no rows scored yet");
    const more = SCORES[key].better > 0;
    const best = known.reduce((one, other) =>
        (more ? other.value > one.value : other.value < one.value) ? other : one,
    );
    const name = (SHORT[best.name] ?? best.name).toLowerCase();
    if (more) {
        const gain = value - best.value;
        return h(
            `span.badge${gain > 0 ? ".good" : ".bad"}`,
            {},
            `${gain > 0 ? "+" : "−"}${number(Math.abs(gain))} over ${name}`,
        );
    }
    const share = best.value > 0 ? value / best.value : 1;
    const below = 100 * (1 - share);
    const text = share <= 1 ? `${below.toFixed(below > 99 ? 1 : 0)} % below ${name}` : `${number(share, 1)} × ${name}`;
    return h(`span.badge${share < 1 ? ".good" : ".bad"}`, {}, text);
}
