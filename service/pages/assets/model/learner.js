// The inside of the learner: the weights of its experts, rates or candidates, now and as they move while the page is
// open.

import { bars } from "../charts/bars.js";
import { Frame } from "../charts/frame.js";
import { LineChart } from "../charts/line.js";
import { byId, fact, fill, folded, h } from "../dom.js";
import { clipped, labelText, number, rowsText } from "../format.js";

const LINES_MAX = 7;
const TONES = Array.from({ length: LINES_MAX }, (_, at) => `series-${at + 1}`);
const [HEIGHT, HEIGHT_MAX, ROW_HEIGHT] = [240, 400, 24];
const GAUSSIANS_MAX = 20;
const SAMPLES_MAX = 512;
const SINCE = "Since you opened this page.";
const FACTS = {
    effective_window: "Effective window, rows",
    noise_std: "Noise, standard deviation",
    margin_mean: "Margin, mean",
    margin_std: "Margin, standard deviation",
};

/** What members a learner has, with what to show of each: GET /models/NAME tells of them, or GET its features. */
const KINDS = [
    {
        title: "Experts after the change of features",
        note:
            "Recovered: the old model on old features recovered from the new ones; new: trained in the overlap; " +
            "carried: a copy of the old model in the new features.",
        members: ({ features: { ensemble } }) =>
            ensemble?.map((own) => ({ name: own.expert, value: own.weight, note: `loss ${number(own.loss, 1)}` })),
    },
    {
        title: "Experts of auto",
        note:
            "Each expert's share in the predictions; a resting expert learns no rows until it wakes. " +
            "Experts are scored by what they predict when the label arrives, the model by what it returned.",
        members: ({ model: { info } }) => info.experts?.map(expertOf).sort((one, other) => other.value - one.value),
    },
    {
        title: "Bank of forgetting rates",
        note: "One learner per rate, weighted by how well it predicts. A high rate forgets fast; 0 never forgets.",
        members: ({ model: { info } }) =>
            info.forgetting_rates?.map((rate, at) => ({ name: `rate ${rate}`, value: info.forgetting_weights[at] })),
    },
    {
        title: "Candidates of ODM",
        note: "Learners that restart at regular intervals, weighted by how well they predict.",
        members: ({ model: { info } }) =>
            info.epochs?.map((epoch, at) => ({ name: `every ${rowsText(epoch)}`, value: info.epoch_weights[at] })),
    },
];

export function learner(model, place) {
    const facts = h("dl.stats.small-stats");
    const shown = new Map();
    const members = h("div.stacked", facts);
    const roomy = matchMedia("(min-width: 761px)").matches; // on a phone it is long
    fill(place, folded("Weights of its parts", members, { open: roomy }));
    model.when(["model", "features"], (docs) => {
        for (const kind of KINDS) {
            const list = kind.members(docs) ?? [];
            if (list.length && !shown.has(kind)) shown.set(kind, new Members(model, kind, members));
            shown.get(kind)?.update(list, docs.model.rows);
        }
        fill(facts, factsOf(docs.model)).hidden = !facts.childElementCount;
        byId("learner").hidden = [...members.children].every((own) => own.hidden);
    });
}

function expertOf({ expert, weight, resting, accuracy = null, mse = null }) {
    const score = accuracy !== null ? `accuracy ${number(accuracy)}` : mse !== null ? `mse ${number(mse)}` : null;
    return { name: expert, value: weight, faded: resting, note: resting ? "resting" : score };
}

function factsOf({ info }) {
    const name = (at) => `Gaussian of ${clipped(labelText(info.labels[at]), 20)}, rows`;
    const rows = ({ mean_rows: mean }, at) => fact(name(at), number(mean, 0));
    const known = Object.entries(FACTS).filter(([key]) => typeof info[key] === "number");
    const gaussians = (info.gaussians ?? []).slice(0, GAUSSIANS_MAX).map(rows);
    return [...known.map(([key, name]) => fact(name, number(info[key]))), ...gaussians];
}

/** Members of a learner with their weights: bars for now, lines for how they have moved. */
class Members {
    constructor(model, { title, note }, place) {
        this.samples = []; // of weights by name: they have no history but that of this page
        this.tones = new Map();
        const file = `${model.name}-weights`;
        const rows = () => this.list.map(({ name, value }) => [name, value]);
        this.now = new Frame({ title, note, file, numbers: () => ({ columns: ["name", "weight"], rows: rows() }) });
        this.course = new LineChart({ title: "Over time", note: SINCE, file: `${file}-over-rows` });
        this.element = h("div.pair", this.now.element, this.course.element);
        place.append(this.element);
    }

    update(list, row) {
        this.element.hidden = !list.length;
        if (!list.length) return;
        this.list = list;
        this.record(row, Object.fromEntries(list.map(({ name, value }) => [name, value])));
        const top = this.top();
        const toneOf = (name) => this.tones.get(name) ?? "muted";
        const text = (value) => (value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(3));
        const shown = list.map((own) => ({ ...own, text: text(own.value), tone: toneOf(own.name) }));
        this.now.show(bars(shown, { label: this.now.title }));
        const points = (read) => this.samples.map(({ row: at, values }) => [at, read(values)]);
        const line = (name) => ({ key: name, name, tone: toneOf(name), points: points((own) => own[name] ?? null) });
        const series = top.map(line);
        const rest = list.length - top.length;
        const others = (values) => Object.entries(values).filter(([name]) => !top.includes(name));
        const sum = (values) => others(values).reduce((all, [, value]) => all + value, 0);
        const name = rest === 1 ? "1 other" : `${rest} others`;
        if (rest > 0) series.push({ ...line(name), key: " others", stroke: "dashed", points: points(sum) });
        this.course.height = Math.min(HEIGHT_MAX, Math.max(HEIGHT, ROW_HEIGHT * list.length)); // as high as the bars
        this.course.update({ series, bounds: [0, 1], zero: true, empty: "No rows learned yet" });
    }

    /** Take a sample in; of too many, every other one but the newest goes. */
    record(row, values) {
        const last = this.samples.at(-1);
        if (row < last?.row) this.samples = []; // the model has started again
        if (row === last?.row) last.values = values;
        else this.samples.push({ row, values });
        const newest = this.samples.length - 1;
        if (newest >= SAMPLES_MAX) this.samples = this.samples.filter((_, at) => at % 2 === 0 || at === newest);
    }

    /** The members that weigh or have weighed most, each with a colour that stays. */
    top() {
        const most = (name) => Math.max(...this.samples.map(({ values }) => values[name] ?? 0));
        const names = new Set(this.samples.flatMap(({ values }) => Object.keys(values)));
        const top = [...names].sort((one, other) => most(other) - most(one)).slice(0, LINES_MAX);
        for (const name of this.tones.keys()) if (!top.includes(name)) this.tones.delete(name);
        const taken = new Set(this.tones.values());
        const free = TONES.filter((tone) => !taken.has(tone));
        for (const name of top) if (!this.tones.has(name)) this.tones.set(name, free.shift());
        return top.sort((one, other) => this.tones.get(one).localeCompare(this.tones.get(other)));
    }
}
