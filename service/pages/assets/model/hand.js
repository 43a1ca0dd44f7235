/**
 * Predict and teach by hand: a row made from the schema, what the model says about it, and its true label.
 */

import { address, json } from "../api.js";
import { number } from "../charts.js";
import { fill, h } from "../dom.js";
import { percent, whole } from "../format.js";
import { key } from "../key.js";
import { acting, actionButton, answered, field, refusable, say, sayer } from "./actions.js";
import { predictionShown, valueOf } from "./prediction.js";
import { needing } from "./rights.js";
import { RowForm } from "./row_form.js";

const BUTTONS_MAX = 12;
const LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99];

/**
 * Fill the panel.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function hand(model) {
    new Hand(model, document.getElementById("hand-inside"));
}

class Hand {
    constructor(model, place) {
        this.model = model;
        this.form = new RowForm();
        this.said = sayer();
        this.shown = h("div", { "aria-live": "polite" });
        this.teaching = h("div.stack.tight");
        this.level = h("select",
            h("option", { value: "" }, "None"),
            LEVELS.map((own) => h("option", { value: String(own), selected: own === 0.9 }, percent(own, 0))),
        );
        this.levelField = field("Interval", this.level, { path: "interval" });
        this.track = h("input", { type: "checkbox" });
        this.call = h("pre", { tabindex: "0", role: "region", "aria-label": "The call for curl" });
        this.last = null;
        this.predictButton = h("button.button.primary", { type: "submit" }, "Predict");
        const asked = h("form.stack",
            {
                on: {
                    submit: (event) => (
                        event.preventDefault(),
                        acting(this.predictButton, () => this.predict(), this.said)
                    ),
                },
            },
            h("div.row", h("span.muted.small.grow", "A row of the present features"), this.form.modes.element),
            this.form.element,
            this.levelField,
            h("label.check.needs-learn", this.track, "Keep it until its label comes"),
            h("div.row", this.predictButton),
        );
        const call = h("details.folded", { on: { toggle: () => this.writeCall() } },
            h("summary", "As a call"),
            h("div.code", this.call),
        );
        asked.addEventListener("input", () => this.writeCall());
        this.element = h("div.stack", asked, this.said, this.shown, needing("learn", this.teaching), call);
        fill(place, this.element);
        model.when(["features", "model"], ({ features, model: shown }) => this.drawRow(features, shown));
        model.when(["model"], ({ model: shown }) => this.drawTeaching(shown));
    }

    drawRow(features, { config, rows }) {
        this.form.draw(features, config.algorithm === "sparse_dfop");
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

    // -------------------------------------------------------------------------------------------- predict

    body(row) {
        const regression = this.model.docs.model?.config.task === "regression";
        const interval = regression && this.level.value ? { interval: Number(this.level.value) } : {};
        return { features: row, explain: true, ...interval, ...(this.track.checked ? { track: true } : {}) };
    }

    async predict() {
        const row = this.form.row();
        if (row === null) return;
        const answer = await this.asked("predict", this.body(row));
        if (!answer) return;
        this.last = { row, answer };
        fill(this.shown, predictionShown(answer, null, this.body(row).interval ?? null));
        if (answer.prediction_id) await this.model.refresh("pending");
    }

    /** Send something; what is wrong with the row is said at its fields, and null comes back. */
    asked(route, body, query) {
        return answered(this.element, this.said, this.model.path(route), { method: "POST", body, query });
    }

    // -------------------------------------------------------------------------------------------- teach

    drawTeaching(shown) {
        const { task, labels: declared } = shown.config;
        this.levelField.hidden = task !== "regression";
        const labels = [
            ...new Map([...(declared ?? []), ...(shown.info.labels ?? [])].map((own) => [String(own), own])).values(),
        ];
        const written = JSON.stringify([task, declared, labels]);
        if (written === this.written) return;
        this.written = written;
        const controls = task === "regression" ? [this.numberLabel()] : this.classLabels(labels, Boolean(declared));
        fill(this.teaching, h("p.label", "Teach this row: its true label is"), controls);
    }

    numberLabel() {
        const input = h("input", { type: "number", step: "any", required: "", "aria-label": "True label" });
        return this.labelForm(input, () => Number(input.value));
    }

    classLabels(labels, declared) {
        const few = labels.length <= BUTTONS_MAX;
        const button = (label) =>
            actionButton(String(label), () => this.teach(label), {
                kind: ".label-button",
                said: this.said,
                name: `Teach: ${label}`,
            });
        const parts = [];
        if (few) parts.push(h("div.row.label-buttons", labels.map(button)));
        else {
            const select = h("select", { "aria-label": "True label" },
                labels.map((own, at) => h("option", { value: String(at) }, String(own))),
            );
            parts.push(this.labelForm(select, () => labels[Number(select.value)]));
        }
        if (!declared) {
            const other = h("input", {
                type: "text",
                required: "",
                placeholder: labels.length ? "another label" : "label",
                "aria-label": "Another label",
                autocomplete: "off",
            });
            parts.push(this.labelForm(other, () => typed(other.value, labels)));
        }
        return parts;
    }

    labelForm(control, value) {
        const submit = h("button.button", { type: "submit" }, "Teach");
        const form = h("form.label-form", { data: { path: "label" } }, control, submit);
        const error = h("p.error", { hidden: true });
        refusable(form, error, control);
        form.append(error);
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            acting(submit, () => this.teach(value()), this.said);
        });
        return form;
    }

    /** Teach the row: by the id of its prediction where it waits for its label, else by its features. */
    async teach(label) {
        const row = this.form.row();
        if (row === null) return;
        const same = this.last && JSON.stringify(this.last.row) === JSON.stringify(row);
        const waiting = same ? this.last.answer.prediction_id : undefined;
        const answer = await this.asked(
            "feedback",
            waiting ? { prediction_id: waiting, label } : { features: row, label },
        );
        if (!answer) return;
        say(this.said, h("p.notice.good", learned(answer, this.model.docs.model.config.task)));
        const before = same ? this.last.answer : null;
        const { track, ...body } = this.body(row);
        const now = await this.asked("predict", body, { min_version: answer.version });
        if (now) {
            this.last = { row, answer: now };
            fill(this.shown, predictionShown(now, before, body.interval ?? null));
        }
        if (waiting) await this.model.refresh("pending");
    }

    // -------------------------------------------------------------------------------------------- the call

    writeCall() {
        const row = this.form.areaField.hidden ? this.form.fromControls() : this.form.area.value;
        const body = typeof row === "string" ? `{"features": ${row}}` : JSON.stringify({ features: row });
        const url = address(this.model.path("predict")).href;
        const secret = key() === null ? "" : ' \\\n  -H "Authorization: Bearer $ONEPASS_API_KEY"';
        this.call.textContent = `curl ${url}${secret} \\\n  --json '${body.replaceAll("'", "'\\''")}'`;
    }
}

/** Another label as people enter it: an integer where all known labels are integers, else text. */
function typed(text, labels) {
    const whole = labels.length > 0 && labels.every((own) => typeof own === "number");
    return whole && /^-?\d+$/.test(text) ? Number(text) : text;
}

/** What nobody may have meant: a mistyped label becomes a class, which stays. */
function newClasses(labels) {
    const names = labels.map((label) => `“${String(label)}”`).join(", ");
    return labels.length === 1 ? `${names} is a new class of this model.` : `${names} are new classes of this model.`;
}

function learned(answer, task) {
    if (answer.duplicate) return "This row had been learned before; nothing has changed.";
    const by = answer.mapped === false ? " by the old features alone" : "";
    const fresh = answer.new_labels?.length ? ` ${newClasses(answer.new_labels)}` : "";
    const state = answer.learned === false ? "Scored, not learned." : `Learned${by}, as row ${whole(answer.rows)}.`;
    if (answer.prediction === null) return `${state} No label was known before it.${fresh}`;
    const miss =
        task === "regression"
            ? ` (squared error ${number(answer.loss)})`
            : answer.loss
              ? ", a miss"
              : ", which is right";
    return `${state} Before, the model said ${valueOf(answer.prediction)}${miss}.${fresh}`;
}
