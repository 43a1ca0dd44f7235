/**
 * The inside of the learner: the weights of its experts, rates or candidates, now and as they move while the page is
 * open.
 */

import { BarChart, LineChart, number, Recording } from "../charts.js";
import { fact, fill, h } from "../dom.js";
import { rowsText } from "./words.js";

const LINES_MAX = 7;
const [HEIGHT, HEIGHT_MAX, ROW_HEIGHT] = [240, 400, 24];
const FACTS = {
    effective_window: "Effective window, rows",
    noise_std: "Noise, standard deviation",
    margin_mean: "Margin, mean",
    margin_std: "Margin, standard deviation",
};

/** What members a learner has: those that GET /models/NAME tells of in `info`, or GET features of an ensemble. */
const KINDS = [
    {
        of: ({ features }) => features.ensemble,
        title: "Experts after the change of features",
        note:
            "Recovered: the old model on old features recovered from the new ones; new: trained in the overlap; " +
            "carried: the old model rewritten.",
        members: (list) =>
            list.map(({ expert, weight, loss }) => ({ name: expert, value: weight, note: `loss ${number(loss, 1)}` })),
    },
    {
        of: ({ model }) => model.info.experts,
        title: "Experts of auto",
        note:
            "Each expert's share in the predictions; one that rests learns no rows until it is tried again. " +
            "An expert is scored by what it says when the label comes, the model by what it had served.",
        members: (list) =>
            list.map((own) => ({
                name: own.expert,
                value: own.weight,
                faded: own.resting,
                note: own.resting ? "resting" : scoreText(own),
            })),
        sorted: true,
    },
    {
        of: ({ model: { info } }) =>
            info.forgetting_rates && info.forgetting_rates.map((rate, at) => [rate, info.forgetting_weights[at]]),
        title: "Bank of forgetting rates",
        note: "One learner for each rate, weighed by how well it predicts. A high rate forgets fast; 0 never does.",
        members: (list) => list.map(([rate, value]) => ({ name: `rate ${rate}`, value })),
    },
    {
        of: ({ model: { info } }) => info.epochs && info.epochs.map((epoch, at) => [epoch, info.epoch_weights[at]]),
        title: "Candidates of ODM",
        note: "Learners that start again every so many rows, weighed by how well they do.",
        members: (list) => list.map(([epoch, value]) => ({ name: `every ${rowsText(epoch)}`, value })),
    },
];

/**
 * Fill the part of the learner's inside.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function learner(model) {
    const place = document.getElementById("learner-inside");
    const facts = h("dl.stats.small-stats");
    const shown = new Map();
    model.when(["model", "features"], (docs) => {
        const present = KINDS.filter((kind) => kind.of(docs)?.length);
        for (const kind of present) {
            if (!shown.has(kind)) shown.set(kind, new Members(model, kind));
            shown.get(kind).update(kind.members(kind.of(docs)), docs.model.rows);
        }
        fill(facts, factsOf(docs.model));
        facts.hidden = !facts.childElementCount;
        const nothing = facts.hidden && !present.length;
        for (const id of ["learner", "to-learner"]) document.getElementById(id).hidden = nothing;
        const first = present.length ? shown.get(present[0]).left : place;
        if (facts.parentElement !== first) first.append(facts);
        const elements = present.length ? present.map((kind) => shown.get(kind).element) : [facts];
        const there = [...place.children];
        const same = elements.length === there.length && elements.every((own, at) => there[at] === own);
        if (!same) fill(place, elements);
    });
}

function scoreText({ accuracy, mse }) {
    if (accuracy !== undefined && accuracy !== null) return `right ${number(accuracy)}`;
    return mse === undefined || mse === null ? null : `mse ${number(mse)}`;
}

/** A weight as text: shares of one need no more than three decimals. */
function share(value) {
    return value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(3);
}

function factsOf({ info }) {
    const gaussians = (info.gaussians ?? [])
        .slice(0, 8)
        .map((own, at) => fact(`Rows behind Gaussian ${at + 1}`, number(own.mean_rows, 0)));
    const known = Object.entries(FACTS).filter(([key]) => typeof info[key] === "number");
    return [...known.map(([key, name]) => fact(name, number(info[key]))), ...gaussians];
}

/** Members of a learner with their weights: bars for now, lines for how they have moved. */
class Members {
    constructor(model, { title, note, sorted = false }) {
        this.sorted = sorted;
        this.recording = new Recording();
        this.tones = new Map();
        const file = `${model.name}-weights`;
        this.now = new BarChart({ title, note, file, valueName: "weight" });
        this.course = new LineChart({
            title: "As they move",
            note: "Since this page was opened.",
            file: `${file}-over-rows`,
            height: HEIGHT,
        });
        this.left = h("div.stacked", this.now.element);
        this.element = h("div.pair.pair-learner", this.left, this.course.element);
    }

    update(members, row) {
        const list = this.sorted ? [...members].sort((one, other) => other.value - one.value) : members;
        const values = Object.fromEntries(list.map(({ name, value }) => [name, value]));
        this.recording.add(row, values);
        const top = this.top();
        this.now.update(
            list.map((own) => ({ ...own, text: share(own.value), tone: this.tones.get(own.name) ?? "tone-base" })),
        );
        const series = top.map((name) => ({
            key: name,
            name,
            tone: this.tones.get(name),
            points: this.recording.points(name),
        }));
        this.course.height = Math.min(HEIGHT_MAX, Math.max(HEIGHT, ROW_HEIGHT * list.length)); // as high as the bars
        const rest = list.length - top.length;
        if (rest > 0)
            series.push({
                key: " others",
                name: rest === 1 ? "1 other" : `${rest} others`,
                tone: "tone-base",
                dashed: true,
                points: this.others(top),
            });
        this.course.update({ series, y: { bounds: [0, 1], zero: true }, empty: "No rows learned yet" });
    }

    /** The members that weigh or have weighed most, each with a colour that stays. */
    top() {
        const most = new Map();
        for (const { values } of this.recording.samples) {
            for (const [name, value] of Object.entries(values)) most.set(name, Math.max(most.get(name) ?? 0, value));
        }
        const top = [...most]
            .sort(([, one], [, other]) => other - one)
            .slice(0, LINES_MAX)
            .map(([name]) => name);
        for (const name of this.tones.keys()) if (!top.includes(name)) this.tones.delete(name);
        const free = Array.from({ length: LINES_MAX }, (_, at) => `tone-${at + 1}`).filter(
            (tone) => ![...this.tones.values()].includes(tone),
        );
        for (const name of top) if (!this.tones.has(name)) this.tones.set(name, free.shift());
        return top.sort((one, other) => this.tones.get(one).localeCompare(this.tones.get(other)));
    }

    others(top) {
        const rest = (values) =>
            Object.entries(values).reduce((sum, [name, value]) => (top.includes(name) ? sum : sum + value), 0);
        return this.recording.samples.map(({ row, values }) => [row, rest(values)]);
    }
}
