// How good the predictions are in detail: all scores side by side; classes, confusion and calibration, or errors and
// the coverage of intervals.

import { bars } from "../charts/bars.js";
import { Frame, more, named, scrolled, tableOf } from "../charts/frame.js";
import { ReliabilityChart } from "../charts/reliability.js";
import { byId, choice, fill, h, placedAt } from "../dom.js";
import { number, percent, share, signed } from "../format.js";
import { what } from "../what.js";
import { BASELINES, SCORES, termed } from "./words.js";

const VIEWS = [["window", "Window"], ["fading", "Fading"], ["overall", "All rows"]];
const SPANS =
    "Window: the last rows only. Fading: all rows, each counting a little less than the one after it. " +
    "All rows: since the model was created or reset.";
const CLASSES_SHOWN = 50;
const ROOMY_MAX = 8;
const CORNER = "label \\ answer";
const RELIABILITY =
    "How often predictions of about one probability were right; on the diagonal, probabilities are exact. " +
    "Rings have fewer than 10 rows, or less than 1 % of all.";

export function quality(model, place) {
    let view = "window";
    let parts = null;
    const views = choice("Rows", VIEWS, (key) => ((view = key), draw(model.docs)));
    fill(byId("quality-tools"), h("div.row", views.element, what("a window", SPANS)));
    const numbers = () => scoreNumbers(model.docs.metrics);
    const scores = new Frame({ title: "All scores", file: `${model.name}-scores`, numbers });
    const draw = ({ model: { config }, metrics }) => {
        views.offer(VIEWS, view);
        if (!parts) {
            parts = config.task === "classification" ? classParts(model) : errorParts(model);
            const [left, right] = parts.columns;
            fill(place, h("div.stacked", left, scores.element), h("div.stacked", right));
        }
        parts.update(metrics[view]);
        const { columns, rows } = numbers();
        const said = rows.map(([name, ...cells]) => [h("td", termed(name)), ...cells]);
        scores.show(scrolled("All scores", tableOf("All scores", columns, said, ".dense")));
    };
    model.when(["model", "metrics"], draw);
}

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

function classParts({ name }) {
    let shown = null;
    const frame = (title, file, numbers, note) => new Frame({ title, note, file: `${name}-${file}`, numbers });
    const classes = frame("Classes", "classes", () => classNumbers(shown.per_class ?? {}));
    const matrix = () => confusionNumbers(shown.confusion);
    const confusion = frame("Confusion", "confusion", matrix, "Rows by label and prediction.");
    const reliability = new ReliabilityChart({ note: RELIABILITY, file: `${name}-reliability` });
    return {
        columns: [[classes.element], [confusion.element, reliability.element]],
        update(scores) {
            shown = { confusion: { labels: [], counts: [] }, ...scores };
            const { counts } = shown.confusion;
            confusion.show(counts.length ? confusionTable(shown.confusion) : h("p.muted", "No rows yet"));
            reliability.update(scores.reliability);
            classes.show(classTable(Object.entries(scores.per_class ?? {})));
        },
    };
}

function classNumbers(classes) {
    const cells = ([name, { support, precision, recall, f1 }]) => [name, support, precision, recall, f1];
    const rows = Object.entries(classes).map(cells);
    return { columns: ["class", "support", "precision", "recall", "f1"], rows, json: classes };
}

function classTable(all) {
    if (!all.length) return h("p.muted", "No classes yet");
    const whole = all.reduce((sum, [, own]) => sum + own.support, 0);
    const rows = all.slice(0, CLASSES_SHOWN).map(([name, { support, precision, recall, f1 }]) => [
        named(name),
        Math.round(support),
        h("td.num", share(whole ? support / whole : null)),
        ...[precision, recall, f1].map((value) => h("td.num", meter(value))),
    ]);
    const heads = ["Class", "Rows", "Share", "Precision", "Recall", "F1"];
    return [
        scrolled("Scores by class", tableOf("Scores by class", heads, rows, ".classes"), ".tall"),
        more(all.length - CLASSES_SHOWN, "more, in the CSV."),
    ];
}

/** A number with a bar behind it, from 0 to 1. */
const meter = (value) => placedAt(h("span.meter", share(value)), { "--share": `${100 * (value ?? 0)}%` });

/** The matrix: a list per label, with a number per answer; the last one may be of all other classes. */
function confusionTable({ labels, counts }) {
    const names = namesOf(labels, counts);
    const kind = `.confusion${names.length > ROOMY_MAX ? ".confusion-many" : ""}`;
    const rows = counts.map((row, at) => rowOf(names[at], row, at));
    return scrolled("Confusion", tableOf("Rows by label and prediction", [CORNER, ...names], rows, kind), ".tall");
}

function confusionNumbers({ labels, counts }) {
    const names = namesOf(labels, counts);
    const rows = counts.map((row, at) => [names[at], ...row]);
    return { columns: [CORNER, ...names], rows, json: { labels, counts } };
}

const namesOf = (labels, counts) => counts.map((_, at) => (at < labels.length ? String(labels[at]) : "other"));

function rowOf(name, counts, own) {
    const all = counts.reduce((sum, value) => sum + value, 0);
    const cell = (value, at) => {
        const share = all ? value / all : 0;
        const made = h(`td.heat${at === own ? ".heat-right" : ".heat-wrong"}${value ? "" : ".heat-none"}`,
            h("span.heat-count", number(Math.round(value))),
            h("span.heat-share", all ? share.toFixed(2) : "–"),
        );
        return placedAt(made, { "--share": `${Math.round(100 * share)}%` });
    };
    return [named(name), ...counts.map(cell)];
}

function errorParts({ name }) {
    let shown = {};
    const levels = () => Object.entries(shown).map(([level, covered]) => [Number(level), covered]);
    const coverage = new Frame({
        title: "Coverage of intervals",
        note: "The share of labels inside the intervals predicted for them; it should equal the level.",
        file: `${name}-coverage`,
        numbers: () => ({ columns: ["level", "covered"], rows: levels(), json: shown }),
    });
    return {
        columns: [[], [coverage.element]],
        update(scores) {
            shown = scores.coverage ?? {};
            const known = levels().some(([, covered]) => covered !== null);
            coverage.show(known ? coverageBars(levels()) : h("p.muted", "No interval has been scored yet"));
        },
    };
}

function coverageBars(levels) {
    const gap = (level, covered) => (covered === null ? "" : `(${covered === level ? "+0" : signed(covered - level)})`);
    const bar = ([goal, value]) => ({ name: percent(goal, 0), value, goal, note: gap(goal, value) });
    return bars(levels.map(bar), { label: "Coverage by level", most: 1, kind: ".bars-levels" });
}
