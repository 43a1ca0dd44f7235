/**
 * Challengers: their scores beside the model's, the paired difference of losses, and what can be done with them.
 */

import { json } from "../api.js";
import { Frame, intervalMark, LineChart, number, sparkline } from "../charts.js";
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
        frame.note(some ? noteOf(task) : "");
        patch(
            frame.body,
            some ? table(model, shown, task, said) : h("p.quiet", {}, "No learner runs beside this one."),
        );
        frame.refreshTable();
        chart.element.hidden = !some;
        if (some) chart.update(linesOf(shown, task, metrics));
    });
}

function noteOf(task) {
    const loss = task === "classification" ? "share of errors" : "mean squared error, clipped";
    return (
        `The model's ${loss} minus the challenger's, on the rows both have predicted, with its 95 % interval: right ` +
        "of zero the challenger is better. The interval holds whenever it is looked at."
    );
}

function table(model, shown, task, said) {
    const key = task === "classification" ? "accuracy" : "mse";
    const reach = Math.max(
        ...shown.challengers.map(({ difference: own }) => Math.max(Math.abs(own.low ?? 0), Math.abs(own.high ?? 0))),
        1e-12,
    );
    const names = ["Challenger", "Rows", SCORES[key].name, "Course", "Difference, around zero", "", ""];
    return h(
        "div.scroll",
        { tabindex: "0", role: "region", "aria-label": "Challengers" },
        h(
            "table.data.challengers",
            {},
            h("caption.visually-hidden", {}, "Challengers and their paired difference to the model"),
            h(
                "thead",
                {},
                h(
                    "tr",
                    {},
                    names.map((name, at) =>
                        h([1, 2].includes(at) ? "th.num" : name ? "th" : "td", name ? { scope: "col" } : {}, name),
                    ),
                ),
            ),
            h(
                "tbody",
                {},
                championRow(shown.champion, model.docs.metrics, key),
                shown.challengers.map((own, at) => challengerRow(model, own, { key, reach, said, tone: toneOf(at) })),
            ),
        ),
    );
}

function championRow({ algorithm }, metrics, key) {
    return h(
        "tr",
        {},
        h("th", { scope: "row" }, "The model itself", h("span.sub", {}, algorithm)),
        h("td.num", {}, number(metrics.rows)),
        h("td.num", {}, number(metrics.window[key]), h("span.sub", {}, `${number(metrics.overall[key])} of all rows`)),
        h("td", {}, course(metrics, key, "the model", "tone-1")),
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
            ? h(
                  "span.badge.accent",
                  { title: "Becomes the model by itself once its interval is above zero" },
                  "promotes itself",
              )
            : null;
    return h(
        "tr",
        { data: { challenger: own.name, key: `${own.name} ${own.since_version}` } },
        h("th", { scope: "row" }, own.name, " ", promote, h("span.sub", {}, own.config.algorithm)),
        h("td.num", {}, number(own.rows), h("span.sub", {}, `since version ${number(own.since_version)}`)),
        h(
            "td.num",
            {},
            number(own.metrics.window[key]),
            h("span.sub", {}, `${number(own.metrics.overall[key])} of all rows`),
        ),
        h("td", {}, course(own.metrics, key, own.name, tone)),
        h("td.interval-cell", {}, intervalMark(difference, reach)),
        h(
            "td.num.interval-text",
            {},
            signed(difference.mean),
            h(
                "span.sub",
                {},
                difference.low === null
                    ? rowsText(difference.rows)
                    : `${signed(difference.low)} to ${signed(difference.high)}`,
            ),
        ),
        h(
            "td",
            {},
            h("div.row.nowrap.needs-admin", {}, promoteButton(model, own, said), deleteButton(model, own, said)),
        ),
    );
}

function signed(value) {
    if (value === null || value === undefined) return "–";
    return `${value > 0 ? "+" : value < 0 ? "−" : ""}${number(Math.abs(value))}`;
}

function promoteButton(model, own, said) {
    const action = async () => {
        const text =
            `${own.name} (${own.config.algorithm}) answers from then on; the present learner goes on as the ` +
            'challenger "previous". All differences start anew.';
        if (!(await confirmed({ title: `Promote ${own.name}?`, text, action: "Promote", danger: false }))) return;
        await json(model.path(`challengers/${encodeURIComponent(own.name)}/promote`), { method: "POST" });
        await model.refresh("model", "metrics", "challengers");
    };
    return actionButton("Promote", action, { kind: ".small", said, name: `Promote ${own.name}` });
}

function deleteButton(model, own, said) {
    const action = async () => {
        const text = "It is gone, with everything that it has learned.";
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
    const list = shown?.challengers ?? [];
    return {
        columns: [
            "challenger",
            "algorithm",
            "rows",
            "since version",
            "mean difference",
            "low",
            "high",
            "compared rows",
            "promote",
        ],
        rows: list.map((own) => [
            own.name,
            own.config.algorithm,
            own.rows,
            own.since_version,
            own.difference.mean,
            own.difference.low,
            own.difference.high,
            own.difference.rows,
            own.promote,
        ]),
        json: list,
    };
}
