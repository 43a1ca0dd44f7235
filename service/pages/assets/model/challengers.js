// Challengers: their scores beside the model's, the paired difference of losses, and what can be done with them.

import { json } from "../api.js";
import { intervalMark, sparkline } from "../charts/bars.js";
import { Frame, numbersAt, scrolled, tableOf } from "../charts/frame.js";
import { LineChart } from "../charts/line.js";
import { fact, fill, h } from "../dom.js";
import { number, rowsText, signed } from "../format.js";
import { acting, actionButton, actionForm, confirmed, needing, sayer, tell } from "./actions.js";
import { answered, entered, entry, field } from "./fields.js";
import { SCORES, scoreOf } from "./words.js";

const COMPARED = ["mean", "low", "high", "rows"].map((name) => `difference.${name}`);
const COLUMNS = ["name", "config.algorithm", "rows", "since_version", ...COMPARED, "promote"];
/** What a challenger may be called. */
const NAME = "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}";
/** Rows a challenger is compared on before it is promoted without force. */
const ROWS_MIN = 200;

export function challengers(model, place) {
    const said = sayer();
    const numbers = () => numbersAt(model.docs.challengers?.challengers ?? [], COLUMNS);
    const frame = new Frame({ title: "Paired difference", file: `${model.name}-challengers`, numbers });
    const chart = new LineChart({
        title: "Score compared with the challengers",
        note: "Over the window, on the same rows.",
        file: `${model.name}-challengers-score`,
        height: 220,
    });
    const form = challengerForm(model, JSON.parse(place.dataset.schema));
    fill(place, said, frame.element, chart.element, needing("admin", form));
    model.when(["challengers", "model", "metrics"], ({ challengers: shown, model: { config }, metrics }) => {
        const [first] = shown.challengers;
        const key = scoreOf(config.task);
        frame.note(first ? noteOf(config, first.difference) : "");
        const none = h("p.muted", "There are no challengers.");
        frame.show(first ? table(model, shown, metrics, { key, said }) : none);
        chart.element.hidden = !first;
        if (first) chart.update(linesOf(shown, key, metrics));
    });
}

function noteOf({ task, class_costs: costs }, { confidence }) {
    const loss = costs ? "cost per row" : task === "classification" ? "share of errors" : "mean squared error, clipped";
    return (
        `The model's ${loss} minus the challenger's, on the rows that both have predicted, with its ` +
        `${percent(confidence)} interval: right of zero, the challenger is better. You may look at the interval at ` +
        "any time."
    );
}

/** A confidence as it is said: 95 %, 97.5 %. */
const percent = (confidence) => `${Number((100 * confidence).toFixed(2))} %`;

function table(model, { champion, challengers: all }, metrics, { key, said }) {
    const ends = all.flatMap(({ difference: { low, high } }) => [Math.abs(low ?? 0), Math.abs(high ?? 0)]);
    const reach = Math.max(...ends, 1e-12);
    const scores = (own, name, tone) => [
        h("td.num", number(own.window[key]), h("span.sub", `${number(own.overall[key])} over all rows`)),
        h("td", course(own, key, name, tone)),
    ];
    const within = ({ rows, low, high }) => (low === null ? rowsText(rows) : `${signed(low)} to ${signed(high)}`);
    const name = h("th", { scope: "row" }, h("span.unbroken", "This model"), h("span.sub", champion.algorithm));
    const championRow = [name, metrics.rows, ...scores(metrics, "the model", "tone-1"), "", "", ""];
    const challengerRow = (own, at) =>
        h("tr", { data: { challenger: own.name, key: `${own.name} ${own.since_version}` } },
            h("th", { scope: "row" }, own.name, " ", promotes(own), h("span.sub", own.config.algorithm)),
            h("td.num", number(own.rows), h("span.sub", `since version ${number(own.since_version)}`)),
            scores(own.metrics, own.name, toneOf(at)),
            h("td.interval-cell", intervalMark(own.difference, reach)),
            h("td.num.interval-text", signed(own.difference.mean), h("span.sub", within(own.difference))),
            h("td", h("div.row.nowrap.needs-admin", promoteButton(model, own, said), deleteButton(model, own, said))),
        );
    const heads = ["Challenger", "Rows", SCORES[key], "Course", "Around zero", "Difference", ""];
    const caption = "Challengers and their paired difference to the model";
    const rows = [championRow, ...all.map(challengerRow)];
    return scrolled("Challengers", tableOf(caption, heads, rows, ".challengers"));
}

/** The colour of a challenger, in its line and in its row. */
const toneOf = (at) => `tone-${2 + (at % 7)}`;

/** The window's score over rows, as small as a word. */
function course(metrics, key, name, tone) {
    const values = metrics.history.map((point) => point[key] ?? null);
    return sparkline(values, { label: `${SCORES[key]} of ${name} over rows`, width: 84, height: 26, tone });
}

function promotes({ promote }) {
    const title = "Is promoted automatically once its interval is above zero";
    return promote === "auto" ? h("span.badge.accent", { title }, "promotes itself") : null;
}

function promoteButton(model, { name }, said) {
    const action = async () => {
        // The button outlives the document that it was drawn from.
        const own = model.docs.challengers.challengers.find((one) => one.name === name);
        const { difference, config, rows } = own;
        const force = name !== "previous" && (difference.rows < ROWS_MIN || !(difference.low > 0));
        const learned = model.docs.model.info.learner_rows ?? model.docs.model.rows;
        const then =
            `${name} (${config.algorithm}) answers from then on; the present learner continues as the challenger ` +
            '"previous". All differences restart from zero. The service first writes a snapshot.';
        const basis = compared(name, { rows, learned, force }, difference);
        const text = force ? [basis, unproven(name), then] : [basis, then];
        const label = force ? "Promote anyway" : "Promote";
        if (!(await confirmed({ title: `Promote ${name}?`, text, action: label, danger: force }))) return;
        const body = force ? { force } : undefined;
        await json(model.path(`challengers/${encodeURIComponent(name)}/promote`), { method: "POST", body });
        await model.refresh("model", "challengers");
    };
    return actionButton("Promote", action, { kind: ".small", said, name: `Promote ${name}` });
}

/** Why a challenger is promoted by force only. */
const unproven = (name) =>
    h("p.notice.bad", `${name} is not proven to be better: that takes ${ROWS_MIN} rows and an interval above zero.`);

/** What a promotion is decided by: the rows that both have learned, and the interval of their difference. */
function compared(name, { rows: own, learned, force }, difference) {
    const { rows, mean, low, high, confidence } = difference;
    const known = low !== null && high !== null;
    const said = known ? `${signed(mean)} (${signed(low)} to ${signed(high)})` : "not known yet";
    const reach = Math.max(Math.abs(low ?? 0), Math.abs(high ?? 0), 1e-12);
    return h("dl.facts.wide-facts",
        fact(`Learned by ${name}`, rowsText(own)),
        fact("Learned by the model", rowsText(learned)),
        fact("Compared", rowsText(rows)),
        fact(`Difference and its ${percent(confidence)} interval`, [
            h(force ? "strong.bad" : "strong.good", said), known && intervalMark(difference, reach),
        ]),
    );
}

function deleteButton(model, { name }, said) {
    const gone = "This deletes everything it has learned.";
    const back = "The service first writes a snapshot; restoring it brings back the whole model as it is now.";
    const action = async () => {
        const question = { title: `Delete challenger ${name}?`, text: [gone, back], action: "Delete" };
        if (!(await confirmed(question))) return;
        await json(model.path(`challengers/${encodeURIComponent(name)}`), { method: "DELETE" });
        await model.refresh("challengers");
    };
    return actionButton("Delete", action, { kind: ".small.danger", said, name: `Delete challenger ${name}` });
}

function linesOf({ champion, challengers: all }, key, metrics) {
    const points = (own) => own.history.map((point) => [point.row, point[key] ?? null]);
    const named = (name, { algorithm }) => `${name} (${algorithm})`;
    const line = ({ name, config, metrics: own }, at) => {
        return { key: name, name: named(name, config), tone: toneOf(at), dashed: at >= 7, points: points(own) };
    };
    const own = { key: " model", name: named("The model", champion), tone: "tone-1", points: points(metrics) };
    const series = [own, ...all.map(line)];
    const shares = key === "accuracy";
    const values = series.flatMap(({ points: one }) => one.map(([, value]) => value)).filter((value) => value > 0);
    const log = !shares && values.length > 0 && Math.max(...values) > 100 * Math.min(...values);
    return { series, bounds: [0, shares ? 1 : Infinity], log };
}

/** The form, folded away until it is asked for; the schema is of the body that it sends. */
function challengerForm(model, { properties }) {
    const said = sayer();
    const text = { type: "text", autocomplete: "off", spellcheck: "false" };
    const name = h("input", { ...text, required: "", pattern: NAME, placeholder: "candidate" });
    const place = h("div.stack");
    let offered = [];
    let entries = {};
    /** Draw the fields, for an algorithm and its parameters. */
    const draw = (picked) => {
        const own = offered.find(({ id }) => id === picked) ?? offered[0];
        const algorithm = { ...properties.algorithm, enum: offered.map(({ id }) => id), description: own.summary };
        const { description } = properties.params;
        entries = {
            algorithm: entry("algorithm", algorithm, { value: own.id }),
            promote: entry("promote", properties.promote),
            params: entry("params", { ...own.params, description }),
        };
        entries.algorithm.element.addEventListener("change", () => {
            draw(entries.algorithm.value());
            entries.algorithm.element.querySelector("select").focus();
        });
        const shown = Object.values(entries).map(({ element }) => element);
        fill(place, h("div.form-grid", field("Name", name, { path: "name" }), shown));
    };
    const submit = h("button.button.primary", { type: "submit" }, "Add challenger");
    const send = async () => {
        const body = entered(Object.entries(entries));
        const to = model.path(`challengers/${encodeURIComponent(name.value)}`);
        if (!(await answered(form, said, to, { method: "PUT", body }))) return;
        tell(said, `${name.value} learns every row from now on.`);
        name.value = "";
        draw();
        await model.refresh("challengers");
    };
    const form = actionForm(".stack", submit, send, said, place, said, h("div.row", submit));
    const folded = h("details.folded", h("summary", "Add a challenger"), form);
    const offer = async () => {
        const { task, algorithm: own } = model.docs.model.config;
        const fine = ({ id, tasks }) => tasks.includes(task) && (id !== "sparse_dfop" || own === id);
        offered = (await json("algorithms")).algorithms.filter(fine);
        draw();
    };
    folded.addEventListener("toggle", () => folded.open && !offered.length && acting(submit, offer, said));
    return folded;
}
