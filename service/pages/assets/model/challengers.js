/**
 * Challengers: their scores beside the model's, the paired difference of losses, and what can be done with them.
 */

import { json } from "../api.js";
import { Frame, intervalMark, LineChart, number, numbersBy, scrolled, sparkline, tableOf } from "../charts.js";
import { fill, h, patch } from "../dom.js";
import { actionButton, confirmed, sayer } from "./actions.js";
import { challengerForm } from "./challenger_form.js";
import { needing } from "./rights.js";
import { rowsText, SCORES } from "./words.js";

/**
 * Fill the part of challengers.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function challengers(model) {
    const place = document.getElementById("challengers-inside");
    const said = sayer();
    const rows = () => numbersOf(model.docs);
    const frame = new Frame({ title: "Paired difference", file: `${model.name}-challengers`, numbers: rows });
    const chart = new LineChart({
        title: "Score beside the challengers",
        note: "Of the window, on the same rows.",
        file: `${model.name}-challengers-score`,
        height: 220,
    });
    fill(place, said, frame.element, chart.element, needing("admin", challengerForm(model)));
    model.when(["challengers", "model", "metrics"], ({ challengers: shown, model: own, metrics }) => {
        const some = shown.challengers.length > 0;
        const task = own.config.task;
        frame.note(some ? noteOf(own.config, shown.challengers[0].difference) : "");
        patch(
            frame.body,
            some ? table(model, shown, task, said) : h("p.quiet", "No learner runs beside this one."),
        );
        frame.refreshTable();
        chart.element.hidden = !some;
        if (some) chart.update(linesOf(shown, task, metrics));
    });
}

function noteOf({ task, class_costs: costs }, { confidence }) {
    const loss = costs ? "cost a row" : task === "classification" ? "share of errors" : "mean squared error, clipped";
    return (
        `The model's ${loss} minus the challenger's, on the rows both have predicted, with its ` +
        `${percent(confidence)} interval: right of zero the challenger is better. The interval holds whenever ` +
        "it is looked at."
    );
}

function table(model, shown, task, said) {
    const key = task === "classification" ? "accuracy" : "mse";
    const reach = Math.max(
        ...shown.challengers.map(({ difference: own }) => Math.max(Math.abs(own.low ?? 0), Math.abs(own.high ?? 0))),
        1e-12,
    );
    const names = ["Challenger", "Rows", SCORES[key].name, "Course", "Difference, around zero", "", ""];
    const rows = [
        championRow(shown.champion, model.docs.metrics, key),
        ...shown.challengers.map((own, at) => challengerRow(model, own, { key, reach, said, tone: toneOf(at) })),
    ];
    const how = { numeric: (at) => [1, 2].includes(at), kind: ".challengers" };
    const caption = "Challengers and their paired difference to the model";
    return scrolled("Challengers", tableOf(caption, names, rows, how));
}

function championRow({ algorithm }, metrics, key) {
    return h("tr",
        h("th", { scope: "row" }, "The model itself", h("span.sub", algorithm)),
        h("td.num", number(metrics.rows)),
        h("td.num", number(metrics.window[key]), h("span.sub", `${number(metrics.overall[key])} of all rows`)),
        h("td", course(metrics, key, "the model", "tone-1")),
        h("td"),
        h("td"),
        h("td"),
    );
}

/** The colour of a challenger, in its line and in its row. */
function toneOf(at) {
    return `tone-${2 + (at % 7)}`;
}

/** The window's score over rows, as small as a word. */
function course(metrics, key, name, tone) {
    const values = metrics.history.map((point) => point[key] ?? null);
    return sparkline(values, { label: `${SCORES[key].name} of ${name} over rows`, width: 84, height: 26, tone });
}

function challengerRow(model, own, { key, reach, said, tone }) {
    const { difference } = own;
    const promote =
        own.promote === "auto"
            ? h("span.badge.accent", { title: "Becomes the model by itself once its interval is above zero" },
                  "promotes itself",
              )
            : null;
    return h("tr", { data: { challenger: own.name, key: `${own.name} ${own.since_version}` } },
        h("th", { scope: "row" }, own.name, " ", promote, h("span.sub", own.config.algorithm)),
        h("td.num", number(own.rows), h("span.sub", `since version ${number(own.since_version)}`)),
        h("td.num",
            number(own.metrics.window[key]),
            h("span.sub", `${number(own.metrics.overall[key])} of all rows`),
        ),
        h("td", course(own.metrics, key, own.name, tone)),
        h("td.interval-cell", intervalMark(difference, reach)),
        h("td.num.interval-text",
            signed(difference.mean),
            h("span.sub",
                difference.low === null
                    ? rowsText(difference.rows)
                    : `${signed(difference.low)} to ${signed(difference.high)}`,
            ),
        ),
        h("td", h("div.row.nowrap.needs-admin", promoteButton(model, own, said), deleteButton(model, own, said))),
    );
}

/** A confidence as it is said: 95 %, 97.5 %. */
function percent(confidence) {
    return `${Number((100 * confidence).toFixed(2))} %`;
}

function signed(value) {
    if (value === null || value === undefined) return "–";
    return `${value > 0 ? "+" : value < 0 ? "−" : ""}${number(Math.abs(value))}`;
}

/** Rows a challenger is compared on before it is promoted without force. */
const ROWS_MIN = 200;

/** What has been compared, in words. */
function comparedText({ rows, mean, low, high, confidence }) {
    if (!rows) return "No row has been compared yet.";
    return (
        `Over ${number(rows)} compared ${rows === 1 ? "row" : "rows"} the difference is ${signed(mean)} ` +
        `(${percent(confidence)} interval: ${signed(low)} to ${signed(high)}).`
    );
}

function promoteButton(model, own, said) {
    const action = async () => {
        // The button outlives the document that it was drawn from.
        const now = model.docs.challengers.challengers.find(({ name }) => name === own.name) ?? own;
        const { difference } = now;
        const force = own.name !== "previous" && (difference.rows < ROWS_MIN || !(difference.low > 0));
        const text = [
            comparedText(difference),
            force &&
                `It has not been shown to be better: that takes ${ROWS_MIN} rows and an interval above zero. It has ` +
                    `learned ${rowsText(now.rows)}.`,
            `${own.name} (${own.config.algorithm}) answers from then on; the present learner goes on as the ` +
                'challenger "previous". All differences start again from zero. A snapshot is written first.',
        ].filter(Boolean);
        const question = { title: `Promote ${own.name}?`, text, action: "Promote", danger: false };
        const forced = { ...question, action: "Promote nevertheless", danger: true };
        if (!(await confirmed(force ? forced : question))) return;
        await json(model.path(`challengers/${encodeURIComponent(own.name)}/promote`), {
            method: "POST",
            ...(force ? { body: { force } } : {}),
        });
        await model.refresh("model", "challengers");
    };
    return actionButton("Promote", action, { kind: ".small", said, name: `Promote ${own.name}` });
}

function deleteButton(model, own, said) {
    const action = async () => {
        const text = [
            "It is gone, with everything that it has learned.",
            "A snapshot is written first; a restore of it brings back the whole model as it was then.",
        ];
        if (!(await confirmed({ title: `Delete challenger ${own.name}?`, text, action: "Delete" }))) return;
        await json(model.path(`challengers/${encodeURIComponent(own.name)}`), { method: "DELETE" });
        await model.refresh("challengers");
    };
    return actionButton("Delete", action, { kind: ".small.danger", said, name: `Delete challenger ${own.name}` });
}

function linesOf(shown, task, metrics) {
    const key = task === "classification" ? "accuracy" : "mse";
    const points = (own) => own.history.map((point) => [point.row, point[key] ?? null]);
    const series = [
        { key: " model", name: `The model (${shown.champion.algorithm})`, tone: "tone-1", points: points(metrics) },
    ];
    shown.challengers.forEach((own, at) => {
        series.push({
            key: own.name,
            name: `${own.name} (${own.config.algorithm})`,
            tone: toneOf(at),
            dashed: at >= 7,
            points: points(own.metrics),
        });
    });
    const classes = task === "classification";
    const values = series.flatMap((own) => own.points.map(([, value]) => value)).filter((value) => value > 0);
    const log = !classes && values.length > 0 && Math.max(...values) > 100 * Math.min(...values);
    return { series, y: { bounds: classes ? [0, 1] : [0, Infinity] }, log };
}

function numbersOf({ challengers: shown }) {
    return numbersBy(shown?.challengers ?? [], {
        challenger: (own) => own.name,
        algorithm: (own) => own.config.algorithm,
        rows: (own) => own.rows,
        "since version": (own) => own.since_version,
        "mean difference": (own) => own.difference.mean,
        low: (own) => own.difference.low,
        high: (own) => own.difference.high,
        "compared rows": (own) => own.difference.rows,
        promote: (own) => own.promote,
    });
}
