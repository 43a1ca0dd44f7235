// Predict and teach by hand: a row made from the schema, what the model says about it, and its true label.

import { address, json } from "../api.js";
import { fill, folded, h, select, textInput } from "../dom.js";
import { labelText, number, percent, whole } from "../format.js";
import { keyHeader } from "../key.js";
import { actionButton, actionForm, needing, sayer, tell } from "./actions.js";
import { ROUNDED, answered, field, isExact, refusable, typed } from "./fields.js";
import { predictionShown, valueOf } from "./prediction.js";
import { RowForm } from "./row_form.js";
import { labelsOf } from "./words.js";

const BUTTONS_MAX = 12;
const OBSERVER = "An observer predicts and learns nothing; it judges the predictions sent as “served”.";
const LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99];

export class Hand {
    constructor(model, place) {
        Object.assign(this, { model, place, form: new RowForm(), said: sayer(), last: null });
        this.shown = h("div", { "aria-live": "polite" });
        this.teaching = h("div.stack.tight");
        this.level = select([["", "None"], ...LEVELS.map((own) => [own, percent(own, 0)])], 0.9);
        this.levelField = field("Interval", this.level, { path: "interval" });
        this.track = h("input", { type: "checkbox" });
        this.call = h("pre", { tabindex: "0", role: "region", "aria-label": "The curl command" });
        const predict = h("button.button.primary", { type: "submit", formnovalidate: "" }, "Predict");
        const asked = actionForm(".stack", predict, () => this.predict(), this.said,
            h("div.row", h("span.muted.small.grow", "A row with the current features"), this.form.modes.element),
            this.form.element,
            this.levelField,
            h("label.check.needs-learn", this.track, "Keep it until its label arrives"),
            h("div.row", predict),
        );
        const write = () => this.writeCall();
        asked.addEventListener("input", write);
        const call = folded("As a curl call", h("div.code", this.call), { on: { toggle: write } });
        this.element = h("div.stack", asked, this.said, this.shown, needing("learn", this.teaching), call);
        fill(place, this.element);
        model.when(["features", "model"], ({ features, model: shown }) => this.drawRow(features, shown));
        model.when(["model"], ({ model: shown }) => this.drawTeaching(shown));
    }

    async drawRow(features, { config, rows }) {
        this.form.draw(features, { sparse: config.algorithm === "sparse_dfop", needed: config.missing === "error" });
        const spaces = JSON.stringify([features.current, rows > 0]);
        if (spaces === this.spaces || !rows) return;
        this.spaces = spaces;
        // The means of the features make a row with which a prediction makes sense.
        const found = await json(this.model.path("features"), { query: { means: true } }).catch(() => null);
        if (found) this.form.offer(found.means);
        this.writeCall();
    }

    async predict() {
        const row = this.form.row();
        const answer = row && (await this.ask(row, this.track.checked ? { track: true } : {}));
        if (!answer) return;
        this.show(row, answer);
        if (answer.prediction_id) await this.model.refresh("pending");
    }

    ask(row, further, query) {
        const level = this.interval();
        const body = { features: row, explain: true, ...(level && { interval: level }), ...further };
        return this.send("predict", body, query);
    }

    interval() {
        return this.model.docs.model?.config.task === "regression" ? Number(this.level.value) || null : null;
    }

    /** Send something; what is wrong with the row is said at its fields, and null comes back. */
    send(route, body, query) {
        return answered(this.element, this.said, this.model.path(route), { method: "POST", body, query });
    }

    show(row, answer, before = null) {
        this.last = { row: JSON.stringify(row), answer };
        fill(this.shown, predictionShown(answer, before, this.interval()));
    }

    drawTeaching({ config, info }) {
        if (config.algorithm === "observer") return fill(this.place, h("p.muted", OBSERVER));
        const { task, labels: declared } = config;
        const labels = labelsOf({ config, info }).filter((own) => !declared || !info.retired_labels?.includes(own));
        this.levelField.hidden = task !== "regression";
        const written = JSON.stringify([task, declared, labels]);
        if (written === this.written) return;
        this.written = written;
        const figure = () => textInput({ type: "number", step: "any", required: "", "aria-label": "True label" });
        const parts = task === "regression" ? this.labelForm(figure(), Number) : this.classLabels(labels, declared);
        fill(this.teaching, h("p.label", "Teach this row: its true label is"), parts);
    }

    classLabels(all, declared) {
        const labels = all.filter(isExact);
        const left = labels.length < all.length && h("p.help", ROUNDED);
        const button = (label) => {
            const how = { kind: ".label-button", said: this.said, name: `Teach: ${labelText(label)}` };
            return actionButton(labelText(label), () => this.teach(label), how);
        };
        const options = labels.map((own, at) => [at, labelText(own)]);
        const choice = () => this.labelForm(select(options, 0, { "aria-label": "True label" }), (at) => labels[at]);
        const known = labels.length <= BUTTONS_MAX ? h("div.row", labels.map(button)) : choice();
        if (declared) return [known, left];
        const placeholder = labels.length ? "another label" : "label";
        const other = textInput({ required: "", placeholder, "aria-label": "Another label" });
        return [known, this.labelForm(other, (text) => typed(text, all)), left];
    }

    /** A form of one control; `read` makes the label of its value. */
    labelForm(control, read) {
        const submit = h("button.button", { type: "submit" }, "Teach");
        const teach = () => this.teach(read(control.value));
        const form = actionForm(".row.label-form", submit, teach, this.said, control, submit);
        form.dataset.path = "label";
        return refusable(form, control);
    }

    /** Teach the row: by the id of its prediction where it waits for its label, else by its features. */
    async teach(label) {
        const row = this.form.row();
        if (row === null) return;
        const before = this.last?.row === JSON.stringify(row) ? this.last.answer : null;
        const waiting = before?.prediction_id;
        const body = waiting ? { prediction_id: waiting, label } : { features: row, label };
        const answer = await this.send("feedback", body);
        if (!answer) return;
        tell(this.said, learned(answer, this.model.docs.model.config.task));
        const now = await this.ask(row, {}, { min_version: answer.version });
        if (now) this.show(row, now, before);
        if (waiting) await this.model.refresh("pending");
    }

    writeCall() {
        const row = this.form.areaField.hidden ? this.form.fromControls() : this.form.area.value;
        const body = typeof row === "string" ? `{"features": ${row}}` : JSON.stringify({ features: row });
        const url = address(this.model.path("predict")).href;
        this.call.textContent = `curl ${url}${keyHeader()} \\\n  --json '${body.replaceAll("'", "'\\''")}'`;
    }
}

function learned({ duplicate, mapped, new_labels: labels, learned: done, rows, prediction, loss }, task) {
    if (duplicate) return "This row was learned before; nothing has changed.";
    const by = mapped === false ? " with the old features only" : "";
    // What nobody may have meant: a mistyped label becomes a class, which stays.
    const classes = labels?.length === 1 ? "is a new class" : "are new classes";
    const fresh = labels?.length ? ` ${labels.map((own) => `“${own}”`).join(", ")} ${classes} of this model.` : "";
    const state = done === false ? "Scored, not learned." : `Learned${by}, as row ${whole(rows)}.`;
    if (prediction === null) return `${state} No label was known before it.${fresh}`;
    const miss = task === "regression" ? ` (squared error ${number(loss)})` : loss ? ", wrong" : ", correct";
    return `${state} Before that, the model predicted ${valueOf(prediction)}${miss}.${fresh}`;
}
