// Predict and teach by hand: a row made from the schema, what the model says about it, and its true label.

import { address, json } from "../api.js";
import { fill, h } from "../dom.js";
import { number, percent, whole } from "../format.js";
import { key } from "../key.js";
import { actionButton, actionForm, needing, sayer, tell } from "./actions.js";
import { answered, field, refusable, typed } from "./fields.js";
import { predictionShown, valueOf } from "./prediction.js";
import { RowForm } from "./row_form.js";

const BUTTONS_MAX = 12;
const LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99];

export function hand(model, place) {
    const panel = new Hand(model);
    fill(place, panel.element);
    model.when(["features", "model"], ({ features, model: shown }) => panel.drawRow(features, shown));
    model.when(["model"], ({ model: shown }) => panel.drawTeaching(shown));
}

class Hand {
    constructor(model) {
        Object.assign(this, { model, form: new RowForm(), said: sayer(), last: null });
        this.shown = h("div", { "aria-live": "polite" });
        this.teaching = h("div.stack.tight");
        const level = (own) => h("option", { value: String(own), selected: own === 0.9 }, percent(own, 0));
        this.level = h("select", h("option", { value: "" }, "None"), LEVELS.map(level));
        this.levelField = field("Interval", this.level, { path: "interval" });
        this.track = h("input", { type: "checkbox" });
        this.call = h("pre", { tabindex: "0", role: "region", "aria-label": "The curl command" });
        const predict = h("button.button.primary", { type: "submit" }, "Predict");
        const asked = actionForm(".stack", predict, () => this.predict(), this.said,
            h("div.row", h("span.muted.small.grow", "A row with the current features"), this.form.modes.element),
            this.form.element,
            this.levelField,
            h("label.check.needs-learn", this.track, "Keep it until its label arrives"),
            h("div.row", predict),
        );
        asked.addEventListener("input", () => this.writeCall());
        const toggle = () => this.writeCall();
        const call = h("details.folded", { on: { toggle } }, h("summary", "As a curl call"), h("div.code", this.call));
        this.element = h("div.stack", asked, this.said, this.shown, needing("learn", this.teaching), call);
    }

    drawRow(features, { config, rows }) {
        this.form.draw(features, { sparse: config.algorithm === "sparse_dfop", needed: config.missing === "error" });
        const spaces = JSON.stringify([features.current, rows > 0]);
        if (spaces === this.spaces || !rows) return;
        this.spaces = spaces;
        this.offerMeans();
    }

    /** Fill in the means of the features: a row with which a prediction makes sense. */
    async offerMeans() {
        try {
            this.form.offer((await json(this.model.path("features"), { query: { means: true } })).means);
            this.writeCall();
        } catch (error) {
            console.info(error.message); // the row is left as it is
        }
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

    drawTeaching({ config: { task, labels: declared }, info }) {
        this.levelField.hidden = task !== "regression";
        const all = [...(declared ?? []), ...(info.labels ?? [])];
        const labels = [...new Map(all.map((own) => [String(own), own])).values()];
        const written = JSON.stringify([task, declared, labels]);
        if (written === this.written) return;
        this.written = written;
        const parts = task === "regression" ? this.numberLabel() : this.classLabels(labels, Boolean(declared));
        fill(this.teaching, h("p.label", "Teach this row: its true label is"), parts);
    }

    numberLabel() {
        const input = h("input", { type: "number", step: "any", required: "", "aria-label": "True label" });
        return this.labelForm(input, () => Number(input.value));
    }

    classLabels(labels, declared) {
        const known = labels.length <= BUTTONS_MAX ? this.labelButtons(labels) : this.labelChoice(labels);
        if (declared) return known;
        const placeholder = labels.length ? "another label" : "label";
        const how = { type: "text", required: "", placeholder, "aria-label": "Another label", autocomplete: "off" };
        const other = h("input", how);
        return [known, this.labelForm(other, () => typed(other.value, labels))];
    }

    labelButtons(labels) {
        const button = (label) => {
            const how = { kind: ".label-button", said: this.said, name: `Teach: ${label}` };
            return actionButton(String(label), () => this.teach(label), how);
        };
        return h("div.row.label-buttons", labels.map(button));
    }

    labelChoice(labels) {
        const options = labels.map((own, at) => h("option", { value: String(at) }, String(own)));
        const select = h("select", { "aria-label": "True label" }, options);
        return this.labelForm(select, () => labels[Number(select.value)]);
    }

    labelForm(control, value) {
        const submit = h("button.button", { type: "submit" }, "Teach");
        const error = h("p.error", { hidden: true });
        const form = actionForm(".label-form", submit, () => this.teach(value()), this.said, control, submit, error);
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
        const secret = key() === null ? "" : ' \\\n  -H "Authorization: Bearer $ONEPASS_API_KEY"';
        this.call.textContent = `curl ${url}${secret} \\\n  --json '${body.replaceAll("'", "'\\''")}'`;
    }
}

/** What nobody may have meant: a mistyped label becomes a class, which stays. */
function newClasses(labels) {
    const names = labels.map((label) => `“${String(label)}”`).join(", ");
    return labels.length === 1 ? ` ${names} is a new class of this model.` : ` ${names} are new classes of this model.`;
}

function learned({ duplicate, mapped, new_labels: labels, learned: done, rows, prediction, loss }, task) {
    if (duplicate) return "This row was learned before; nothing has changed.";
    const by = mapped === false ? " with the old features only" : "";
    const fresh = labels?.length ? newClasses(labels) : "";
    const state = done === false ? "Scored, not learned." : `Learned${by}, as row ${whole(rows)}.`;
    if (prediction === null) return `${state} No label was known before it.${fresh}`;
    const miss = task === "regression" ? ` (squared error ${number(loss)})` : loss ? ", wrong" : ", correct";
    return `${state} Before that, the model predicted ${valueOf(prediction)}${miss}.${fresh}`;
}
