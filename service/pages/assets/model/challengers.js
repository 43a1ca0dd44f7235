// Challengers: their scores beside the model's, the paired difference of losses, and what can be done with them.

import { json } from "../api.js";
import { intervalMark, sparkline } from "../charts/bars.js";
import { Frame, numbersAt, scrolledTable } from "../charts/frame.js";
import { LineChart, wide } from "../charts/line.js";
import { fact, fill, folded, h, textInput } from "../dom.js";
import { figure, number, rowsText, signed } from "../format.js";
import { acting, actionButton, actionForm, confirmed, needing, sayer, tell } from "./actions.js";
import { NAME, answered, entered, entry, field } from "./fields.js";
import { SCORES, scoreOf } from "./words.js";

const COMPARED = ["mean", "low", "high", "rows"].map((name) => `difference.${name}`);
const COLUMNS = ["name", "config.algorithm", "rows", "since_version", ...COMPARED, "promote"];
const AUTO = "Promoted automatically once its interval is above zero";
const NOTE = "Each over its own last rows, a young challenger’s since it was added. Differences are of common rows.";
/** Rows a challenger is compared on before it is promoted without force. */
const ROWS_MIN = 200;
const DELETED = [
    "This deletes everything it has learned.",
    "The service first writes a snapshot; restoring it brings back the whole model as it is now.",
];

export function challengers(model, place) {
    const said = sayer();
    const file = `${model.name}-challengers`;
    const numbers = () => numbersAt(model.docs.challengers?.challengers ?? [], COLUMNS);
    const frame = new Frame({ title: "Paired difference", file, numbers });
    const title = "Score compared with the challengers";
    const chart = new LineChart({ title, note: NOTE, file: `${file}-score`, height: 220 });
    const form = challengerForm(model, JSON.parse(place.dataset.schema));
    fill(place, said, frame.element, chart.element, needing("admin", form));
    model.when(["challengers", "model"], ({ challengers: shown, model: { config }, metrics }) => {
        form.hidden = config.algorithm === "observer"; // which takes none
        const [first] = shown.challengers;
        const key = scoreOf(config.task);
        frame.note(first ? noteOf(config, first.difference) : "");
        frame.show(first ? table(model, shown, key, said) : h("p.muted", "There are no challengers."));
        chart.element.hidden = !first;
        if (first) chart.update(linesOf(shown, key, metrics));
    });
}

function noteOf({ task, class_costs: costs }, { confidence }) {
    const loss = task === "classification" ? "share of errors" : "mean squared error (clipped)";
    return (
        `The model's ${costs ? "cost per row" : loss} minus the challenger's, on the rows that both have predicted, ` +
        `with a ${figure(100 * confidence)}\u202f% interval, valid at any time: right of zero the challenger is better.`
    );
}

/** How far the axis of intervals goes. */
const reachOf = (all) => Math.max(1e-12, ...all.flatMap(({ low, high }) => [Math.abs(low ?? 0), Math.abs(high ?? 0)]));

function table(model, { champion, challengers: all }, key, said) {
    const { metrics } = model.docs;
    const reach = reachOf(all.map(({ difference }) => difference));
    const scores = ({ window, overall, history }, name, tone) => {
        const label = `${SCORES[key]} of ${name} over rows`;
        const course = sparkline(history.map((point) => point[key] ?? null), { label, width: 84, height: 26, tone });
        const whole = h("span.sub", `${number(overall[key])} over all rows`);
        return [h("td.num", number(window[key]), whole), h("td", course)];
    };
    const promotes = ({ promote }) => promote === "auto" && h("span.badge.accent", { title: AUTO }, "auto-promote");
    const within = ({ rows, low, high }) => (low === null ? rowsText(rows) : `${signed(low)} to ${signed(high)}`);
    const name = h("th", { scope: "row" }, h("span.unbroken", "This model"), h("span.sub", champion.algorithm));
    const championRow = [name, metrics.rows, ...scores(metrics, "the model", "series-1"), "", "", ""];
    const challengerRow = (own, at) =>
        h("tr", { data: { challenger: own.name, key: `${own.name} ${own.since_version}` } },
            h("th", { scope: "row" }, own.name, " ", promotes(own), h("span.sub", own.config.algorithm)),
            h("td.num", number(own.rows), h("span.sub", `since version ${number(own.since_version)}`)),
            scores(own.metrics, own.name, toneOf(at)),
            h("td.interval-cell", intervalMark(own.difference, reach)),
            h("td.num", signed(own.difference.mean), h("span.sub", within(own.difference))),
            h("td", h("div.row.nowrap.needs-admin", buttons(model, own, said))),
        );
    const heads = ["Challenger", "Rows", SCORES[key], "Trend", "Interval", "Difference", ""];
    const caption = "Challengers and their paired difference to the model";
    return scrolledTable(caption, heads, [championRow, ...all.map(challengerRow)], ".challengers");
}

/** The colour of a challenger, in its line and in its row. */
const toneOf = (at) => `series-${2 + (at % 7)}`;

/** What can be done with a challenger; buttons outlive the document that they were drawn from. */
function buttons(model, { name }, said) {
    const path = `challengers/${encodeURIComponent(name)}`;
    const promote = async () => {
        const own = model.docs.challengers.challengers.find((one) => one.name === name);
        const { difference } = own;
        const force = name !== "previous" && (difference.rows < ROWS_MIN || !(difference.low > 0));
        const question = { title: `Promote ${name}?`, text: promotion(own, model.docs.model, force), danger: force };
        if (!(await confirmed({ ...question, action: force ? "Promote anyway" : "Promote" }))) return;
        const how = { method: "POST", body: force ? { force } : undefined };
        await model.change(`${path}/promote`, how, "model", "challengers");
    };
    const remove = async () => {
        const question = { title: `Delete challenger ${name}?`, text: DELETED, action: "Delete" };
        if (await confirmed(question)) await model.change(path, { method: "DELETE" }, "challengers");
    };
    return [
        actionButton("Promote", promote, { kind: ".small", said, name: `Promote ${name}` }),
        actionButton("Delete", remove, { kind: ".small.danger", said, name: `Delete challenger ${name}` }),
    ];
}

/** What a promotion does, and what it is decided by: the rows both have learned, the interval of their difference. */
function promotion({ name, config, rows: own, difference }, { rows: all, info }, force) {
    const { rows, mean, low, high, confidence } = difference;
    const known = low !== null && high !== null;
    const said = known ? `${signed(mean)} (${signed(low)} to ${signed(high)})` : "not known yet";
    const unproven = `${name} is not proven to be better: that takes ${ROWS_MIN} rows and an interval above zero.`;
    return [
        h("dl.facts.wide-facts",
            fact(`Learned by ${name}`, rowsText(own)),
            fact("Learned by the model", rowsText(info.learner_rows ?? all)),
            fact("Compared", rowsText(rows)),
            fact(`Difference and its ${figure(100 * confidence)}\u202f% interval`, [
                h(force ? "strong.bad" : "strong.good", said), known && intervalMark(difference, reachOf([difference])),
            ]),
        ),
        force && h("p.notice.bad", unproven),
        `${name} (${config.algorithm}) will answer from then on; the current learner continues as the challenger ` +
            '"previous". All differences restart from zero. The service first writes a snapshot.',
    ];
}

function linesOf({ champion, challengers: all }, key, metrics) {
    const points = (own) => own.history.map((point) => [point.row, point[key] ?? null]);
    const named = (name, { algorithm }) => `${name} (${algorithm})`;
    const line = ({ name, config, metrics: own }, at) => {
        const stroke = at < 7 ? "solid" : "dashed"; // its colour is that of another one
        return { key: name, name: named(name, config), tone: toneOf(at), stroke, points: points(own) };
    };
    const own = { key: " model", name: named("The model", champion), tone: "series-1", points: points(metrics) };
    const series = [own, ...all.map(line)];
    const shares = key === "accuracy";
    return { series, bounds: [0, shares ? 1 : Infinity], log: !shares && wide(series) };
}

/** The form, folded away until it is asked for; the schema is of the body that it sends. */
function challengerForm(model, { properties }) {
    const said = sayer();
    const name = textInput({ required: "", pattern: NAME, placeholder: "candidate" });
    const [named, place] = [field("Name", name, { path: "name" }), h("div.form-grid")];
    const submit = h("button.button.primary", { type: "submit" }, "Add challenger");
    let [offered, entries] = [[], {}];
    /** Draw the fields, for an algorithm and its parameters. */
    const draw = (picked) => {
        const own = offered.find(({ id }) => id === picked) ?? offered[0];
        const algorithm = { ...properties.algorithm, enum: offered.map(({ id }) => id), description: own.summary };
        entries = {
            algorithm: entry("algorithm", algorithm, { value: own.id }),
            promote: entry("promote", properties.promote),
            params: entry("params", { ...own.params, description: properties.params.description }),
        };
        entries.algorithm.element.addEventListener("change", () => {
            draw(entries.algorithm.value());
            entries.algorithm.element.querySelector("select").focus();
        });
        fill(place, named, Object.values(entries).map(({ element }) => element));
    };
    const send = async () => {
        const body = entered(Object.entries(entries));
        const to = model.path(`challengers/${encodeURIComponent(name.value)}`);
        if (!(await answered(form, said, to, { method: "PUT", body }))) return;
        tell(said, `${name.value} learns every row from now on.`);
        name.value = "";
        draw();
        await model.refresh("challengers");
    };
    const offer = async () => {
        const { task, algorithm: own } = model.docs.model.config;
        const fine = ({ id, tasks }) => tasks.includes(task) && (id === own || !/observer|sparse_dfop/.test(id));
        offered = (await json("algorithms")).algorithms.filter(fine);
        draw();
    };
    const form = actionForm(".stack", submit, send, said, place, said, h("div.row", submit));
    const toggle = ({ target }) => target.open && !offered.length && acting(submit, offer, said);
    return folded("Add a challenger", form, { on: { toggle } });
}
