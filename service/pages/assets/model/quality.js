/**
 * How good the predictions are in detail: all scores side by side; classes, confusion and calibration, or errors and
 * the coverage of intervals.
 */

import { ConfusionTable, dataTable, Frame, number, ReliabilityChart, scrolled, tableOf } from "../charts.js";
import { fill, h, patch } from "../dom.js";
import { percent, share } from "../format.js";
import { choice } from "./choice.js";
import { BASELINES, SCORES } from "./words.js";

const VIEWS = [["window", "Window"], ["fading", "Fading"], ["overall", "All rows"]];
const CLASSES_SHOWN = 50;

/**
 * Fill the part of quality.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function quality(model) {
    const place = document.getElementById("quality-inside");
    let view = "window";
    const views = choice("Rows", VIEWS, (key) => ((view = key), draw(model.docs)));
    document.getElementById("quality-views").append(views.element);
    const scores = new Frame({
        title: "All scores",
        file: `${model.name}-scores`,
        numbers: () => scoreNumbers(model.docs.metrics),
    });
    let parts = null;
    const draw = ({ model: shown, metrics }) => {
        views.offer(null, view);
        parts ??= shown.config.task === "classification" ? classParts(model) : errorParts(model);
        if (!place.childElementCount) {
            const [left, right] = parts.columns;
            fill(place, h("div.stacked", left, scores.element), h("div.stacked", right));
        }
        parts.update(metrics[view]);
        patch(scores.body, scoreTable(metrics));
        scores.refreshTable();
    };
    model.when(["model", "metrics"], draw);
}

// ------------------------------------------------------------------------------------------------ all scores

function scoreNumbers(metrics) {
    const all = VIEWS.map(([key]) => metrics[key]);
    const names = Object.keys(SCORES).filter((name) => all.some((own) => name in own));
    const baselines = Object.entries(metrics.baselines).flatMap(([name, own]) =>
        Object.keys(own).map((key) => [
            `${BASELINES[name] ?? name}: ${SCORES[key].name.toLowerCase()}`,
            ...baselineRow(metrics, name, key),
        ]),
    );
    const costs = metrics.overall.costs
        ? [
              ["Cost per row", ...all.map((own) => own.costs.mean)],
              ["Cost per row of the cheapest constant answer", ...all.map((own) => own.costs.constant)],
          ]
        : [];
    const scores = names.map((name) => [SCORES[name].name, ...all.map((own) => own[name] ?? null)]);
    return {
        columns: ["Score", ...VIEWS.map(([, label]) => label)],
        rows: [...costs, ...scores, ...pairedRows(metrics), ...baselines],
        json: {
            window: metrics.window,
            fading: metrics.fading,
            overall: metrics.overall,
            baselines: metrics.baselines,
            paired: metrics.paired,
        },
    };
}

/** The errors of a regression on the rows that its baseline predicted too. */
function pairedRows({ paired }) {
    if (!paired) return [];
    return ["mse", "mae"].map((key) => [
        `${SCORES[key].name}, rows of ${BASELINES.last_value.toLowerCase()}`,
        ...VIEWS.map(([view]) => paired[view][key]),
    ]);
}

function baselineRow(metrics, name, key) {
    return [
        metrics.window.baselines?.[name]?.[key],
        metrics.fading.baselines?.[name]?.[key],
        metrics.baselines[name]?.[key],
    ].map((value) => value ?? null);
}

function scoreTable(metrics) {
    const table = dataTable(scoreNumbers(metrics), "All scores");
    table.classList.add("dense");
    return scrolled("All scores", table);
}

// ------------------------------------------------------------------------------------------------ classification

function classParts(model) {
    const confusion = new ConfusionTable({
        note: "Rows by label and answer.",
        file: `${model.name}-confusion`,
    });
    const reliability = new ReliabilityChart({
        note:
            "How often answers of about one probability were right; on the diagonal promises hold. " +
            "Rings have fewer than 10 rows, or less than 1 % of all.",
        file: `${model.name}-reliability`,
    });
    let shown = null;
    const classes = new Frame({ title: "Classes", file: `${model.name}-classes`, numbers: () => classNumbers(shown) });
    return {
        columns: [[classes.element], [confusion.element, reliability.element]],
        update(scores) {
            shown = scores;
            confusion.update(scores.confusion);
            reliability.update(scores.reliability);
            patch(classes.body, classTable(scores));
            classes.refreshTable();
        },
    };
}

function classNumbers(scores) {
    const rows = Object.entries(scores?.per_class ?? {}).map(([name, own]) => [
        name,
        own.support,
        own.precision,
        own.recall,
        own.f1,
    ]);
    return { columns: ["class", "support", "precision", "recall", "f1"], rows, json: scores?.per_class };
}

function classTable(scores) {
    const all = Object.entries(scores.per_class ?? {});
    if (!all.length) return h("p.quiet", "No class has come yet");
    const whole = all.reduce((sum, [, own]) => sum + own.support, 0);
    const heads = ["Class", "Rows", "Share", "Precision", "Recall", "F1"];
    const rows = all.slice(0, CLASSES_SHOWN).map(([name, own]) => classRow(name, own, whole));
    const table = tableOf("Scores by class", heads, rows, { numeric: (at) => at > 0 });
    return [
        scrolled("Scores by class", table, ".tall"),
        all.length > CLASSES_SHOWN
            ? h("p.quiet.small", `${all.length - CLASSES_SHOWN} more classes are in the CSV.`)
            : null,
    ];
}

function classRow(name, { support, precision, recall, f1 }, whole) {
    return h("tr",
        h("th", { scope: "row" }, h("span.clip.clip-wide", { title: name }, name)),
        h("td.num", number(Math.round(support))),
        h("td.num", share(whole ? support / whole : null)),
        [precision, recall, f1].map((value) => h("td.num", meter(value))),
    );
}

/** A number with a bar behind it, from 0 to 1. */
function meter(value) {
    const element = h("span.meter", share(value));
    element.style.setProperty("--share", `${100 * (value ?? 0)}%`);
    return element;
}

// ------------------------------------------------------------------------------------------------ regression

function errorParts(model) {
    let shown = null;
    const coverage = new Frame({
        title: "Coverage of intervals",
        note: "The share of labels within the intervals made before they came; it should be the level itself.",
        file: `${model.name}-coverage`,
        numbers: () => ({ columns: ["level", "covered"], rows: coverageRows(shown), json: shown?.coverage }),
    });
    return {
        columns: [[], [coverage.element]],
        update(scores) {
            shown = scores;
            patch(coverage.body, coverageBars(scores));
            coverage.refreshTable();
        },
    };
}

function coverageRows(scores) {
    return Object.entries(scores?.coverage ?? {}).map(([level, covered]) => [Number(level), covered]);
}

function coverageBars(scores) {
    const rows = coverageRows(scores);
    if (!rows.some(([, covered]) => covered !== null)) return h("p.quiet", "No interval has been scored yet");
    return h("ul.levels", { "aria-label": "Coverage by level" },
        rows.map(([level, covered]) => {
            const track = h("span.level-track", { "aria-hidden": "true" }, h("span.level-fill"), h("span.level-goal"));
            track.firstChild.style.width = `${100 * (covered ?? 0)}%`;
            track.lastChild.style.left = `${100 * level}%`;
            const gap =
                covered === null ? "" : ` (${covered >= level ? "+" : "−"}${number(Math.abs(covered - level))})`;
            return h("li.level",
                h("span", percent(level, 0)),
                track,
                h("span.num", number(covered), h("span.muted", gap)),
            );
        }),
    );
}
