// How good the predictions are in detail: all scores side by side; classes, confusion and calibration, or errors and
// the coverage of intervals.

import { bars } from "../charts/bars.js";
import { Frame, more, named, scrolledTable } from "../charts/frame.js";
import { ReliabilityChart } from "../charts/reliability.js";
import { byId, choice, fill, h } from "../dom.js";
import { labelText, number, percent, share, signed } from "../format.js";
import { what } from "../what.js";
import { BASELINES, SCORES, termed } from "./words.js";

const VIEWS = [["window", "Window"], ["fading", "Fading"], ["overall", "All rows"]];
const SPANS =
    "Window: the last rows only. Fading: all rows, each counting a little less than the one after it. " +
    "All rows: since the model was created or reset.";
const COVERAGE = "The share of labels inside the intervals predicted for them; it should equal the level.";
const CLASSES_SHOWN = 50;
const ROOMY_MAX = 8;
const CORNER = "label \\ prediction";
const RELIABILITY =
    "How often predictions with about the same probability were correct; on the diagonal, probabilities are exact. " +
    "Rings mark steps with fewer than 10 rows, or less than 1 % of all.";

export function quality(model, place) {
    let view = "window";
    let parts = null;
    const views = choice("Rows", VIEWS, (key) => ((view = key), draw(model.docs)));
    fill(byId("quality-tools"), h("div.row", views.element, what("a window", SPANS)));
    const scores = framed(model, "All scores", "scores", () => scoreNumbers(model.docs.metrics));
    const draw = ({ model: { config }, metrics }) => {
        views.offer(VIEWS, view);
        if (!parts) {
            parts = config.task === "classification" ? classParts(model) : errorParts(model);
            fill(place, h("div.stacked", parts.left, scores.element), h("div.stacked", parts.right));
        }
        parts.update(metrics[view]);
        const { columns, rows } = scoreNumbers(metrics);
        const said = rows.map(([name, ...cells]) => [h("td", termed(name)), ...cells]);
        scores.show(scrolledTable("All scores", columns, said, ".dense"));
    };
    model.when(["model"], draw);
}

const framed = ({ name }, title, file, numbers, note) => new Frame({ title, note, file: `${name}-${file}`, numbers });

function scoreNumbers(metrics) {
    const { baselines, paired } = metrics;
    const all = VIEWS.map(([view]) => metrics[view]);
    const row = (name, read) => [name, ...VIEWS.map(([view]) => read(metrics[view], view) ?? null)];
    const costs = [
        row("Cost per row", ({ costs: own }) => own?.mean),
        row("Cost per row of the cheapest constant prediction", ({ costs: own }) => own?.constant),
    ];
    const known = Object.keys(SCORES).filter((name) => all.some((own) => name in own));
    const scores = known.map((name) => row(SCORES[name], (own) => own[name]));
    // The errors of a regression on the rows that its baseline predicted too.
    const of = BASELINES.last_value.toLowerCase();
    const pairs = ["mse", "mae"].map((key) => row(`${SCORES[key]}, rows of ${of}`, (_, view) => paired?.[view][key]));
    const others = Object.entries(baselines).flatMap(([name, whole]) =>
        Object.keys(whole).map((key) =>
            row(`${BASELINES[name] ?? name}: ${SCORES[key].toLowerCase()}`, (own, view) =>
                view === "overall" ? whole[key] : own.baselines?.[name]?.[key],
            ),
        ),
    );
    const { window, fading, overall } = metrics;
    return {
        columns: ["Score", ...VIEWS.map(([, label]) => label)],
        rows: [...(overall.costs ? costs : []), ...scores, ...(paired ? pairs : []), ...others],
        json: { window, fading, overall, baselines, paired },
    };
}

function classParts(model) {
    let shown = {};
    const classes = framed(model, "Classes", "classes", () => classNumbers(shown.per_class ?? {}));
    const matrix = () => confusionNumbers(shown.confusion ?? { labels: [], counts: [] });
    const confusion = framed(model, "Confusion", "confusion", matrix, "Rows by label and prediction.");
    const reliability = new ReliabilityChart({ note: RELIABILITY, file: `${model.name}-reliability` });
    const update = (scores) => {
        shown = scores;
        const some = scores.confusion?.counts.length;
        classes.show(classTable(Object.entries(scores.per_class ?? {})));
        confusion.show(some ? confusionTable(scores.confusion) : h("p.muted", "No rows yet"));
        reliability.update(scores.reliability);
    };
    return { left: classes.element, right: [confusion.element, reliability.element], update };
}

function classNumbers(classes) {
    const cells = ([name, { support, precision, recall, f1 }]) => [name, support, precision, recall, f1];
    const rows = Object.entries(classes).map(cells);
    return { columns: ["class", "support", "precision", "recall", "f1"], rows, json: classes };
}

function classTable(all) {
    if (!all.length) return h("p.muted", "No classes yet");
    const whole = all.reduce((sum, [, own]) => sum + own.support, 0);
    /** A number with a bar behind it, from 0 to 1. */
    const meter = (value) => h("span.meter", { style: { "--share": `${100 * (value ?? 0)}%` } }, share(value));
    const rows = all.slice(0, CLASSES_SHOWN).map(([name, { support, precision, recall, f1 }]) => [
        named(labelText(name)),
        Math.round(support),
        h("td.num", share(whole ? support / whole : null)),
        ...[precision, recall, f1].map((value) => h("td.num", meter(value))),
    ]);
    const heads = ["Class", "Rows", "Share", "Precision", "Recall", "F1"];
    return [
        scrolledTable("Scores by class", heads, rows, ".classes", ".tall"),
        more(all.length - CLASSES_SHOWN, "more, in the CSV."),
    ];
}

/** The matrix as a table: rows by label, columns by prediction, shaded by the share of the label's rows. */
function confusionTable(confusion) {
    const { columns, rows } = confusionNumbers(confusion);
    const kind = `.confusion${rows.length > ROOMY_MAX ? ".confusion-many" : ""}`;
    const heads = columns.map((name) => h("span.clip", { title: name }, labelText(name)));
    return scrolledTable("Rows by label and prediction", heads, rows.map(heatRow), kind, ".tall");
}

/** A list per label, with a number per prediction; the last one may be of all other classes. */
function confusionNumbers({ labels, counts }) {
    const names = counts.map((_, at) => (at < labels.length ? String(labels[at]) : "other"));
    const rows = counts.map((row, at) => [names[at], ...row]);
    return { columns: [CORNER, ...names], rows, json: { labels, counts } };
}

function heatRow([name, ...counts], own) {
    const all = counts.reduce((sum, value) => sum + value, 0);
    const cell = (value, at) => {
        const share = all ? value / all : 0;
        const kind = `${at === own ? ".heat-right" : ".heat-wrong"}${value ? "" : ".muted"}`;
        return h(`td.heat${kind}`, { style: { "--share": `${Math.round(100 * share)}%` } },
            h("span.heat-count", number(Math.round(value))),
            h("span.heat-share", all ? share.toFixed(2) : "–"),
        );
    };
    return [named(labelText(name)), ...counts.map(cell)];
}

function errorParts(model) {
    let shown = {};
    const levels = () => Object.entries(shown).map(([level, covered]) => [Number(level), covered]);
    const numbers = () => ({ columns: ["level", "covered"], rows: levels(), json: shown });
    const coverage = framed(model, "Coverage of intervals", "coverage", numbers, COVERAGE);
    const gap = (level, covered) => (covered === null ? "" : `(${signed(Number((covered - level).toFixed(3)))})`);
    const bar = ([goal, value]) => ({ name: percent(goal, 0), value, goal, note: gap(goal, value) });
    const update = (scores) => {
        shown = scores.coverage ?? {};
        const some = levels().some(([, covered]) => covered !== null);
        const drawn = bars(levels().map(bar), { label: "Coverage by level", most: 1, kind: ".bars-levels" });
        coverage.show(some ? drawn : h("p.muted", "No interval has been scored yet"));
    };
    return { left: [], right: coverage.element, update };
}
