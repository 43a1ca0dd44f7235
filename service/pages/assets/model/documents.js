// The documents of one model as they are now, looked at every two seconds, and who is told when one of them changes.

import { json, request } from "../api.js";

/** Where each document is. */
const BELOW = {
    model: "",
    features: "features",
    drift: "drift?order=newest",
    challengers: "challengers",
    pending: "pending?limit=20",
    snapshots: "snapshots",
    log: "log?limit=6",
    weights: "weights",
};
/** Those that a version does not tell of, or that are large: one in each look. */
const IN_TURN = ["pending", "weights", "log", "snapshots"];
/** Algorithms that have no weights to show; of others that have none the service says so. */
const NOT_LINEAR = new Set(["auto", "vigo", "vigod", "vigow", "ga2m", "sparse_dfop", "observer"]);
const SPEED_MS = 10_000;
const REDRAWN_MS = 10_000;

export class ModelDocuments {
    /** `whole`: whether the last look has seen all that it wanted to. */
    constructor(name) {
        Object.assign(this, { name, docs: {}, texts: {}, tags: {}, listeners: [], looks: 0, speeds: [], whole: false });
    }

    /** The address of what is below the model: "challengers/candidate". */
    path(below = "") {
        return `models/${encodeURIComponent(this.name)}${below && `/${below}`}`;
    }

    /** Be told of documents, by their names, as soon as all are there and whenever one of them changes. */
    when(names, listener) {
        this.listeners.push({ names, listener });
    }

    /** Draw a document whenever it changes, and now and then: times are told as "5 min ago". */
    redrawn(name, draw) {
        const now = () => this.docs[name] && draw(this.docs[name]);
        this.when([name], now);
        setInterval(now, REDRAWN_MS);
    }

    /** Look at what a new version may have changed, and at the rest now and then; at everything after a failure. */
    async look(signal) {
        await this.read("model", { signal });
        const changed = this.texts.model !== this.seen; // perhaps by an action of this page, which has read it
        this.seen = this.texts.model;
        const { phase, info } = this.docs.model;
        const space = JSON.stringify([phase, info.features]);
        const names = ["drift", IN_TURN[this.looks++ % IN_TURN.length]];
        if (changed) names.push("challengers");
        if (changed && (phase !== "steady" || space !== this.space)) names.push("features");
        this.space = space;
        const wanted = (this.whole ? names : Object.keys(BELOW).slice(1)).filter((name) => this.has(name));
        this.whole = false;
        await Promise.all(wanted.map((name) => this.read(name, { signal })));
        this.whole = true;
    }

    /** Whether there may be a document of the name: weights are of linear models alone. */
    has(name) {
        const { config, info } = this.docs.model;
        const linear = !NOT_LINEAR.has(config.algorithm) && config.algorithm !== this.curved;
        return name !== "weights" || (linear && !config.params.random_features && Boolean(info.features?.length));
    }

    /** Ask for documents now, after an action of this page. */
    async refresh(...names) {
        await Promise.all(names.map((name) => this.read(name)));
    }

    /** Send something to what is below the model, then ask for the documents that it changes. */
    async change(below, how, ...names) {
        await json(this.path(below), how);
        await this.refresh(...names);
    }

    /** Ask for a document, and take it if it is another one than before. */
    async read(name, { signal } = {}) {
        const headers = this.tags[name] ? { "If-None-Match": this.tags[name] } : {};
        const asked = request(this.path(BELOW[name]), { signal, headers });
        const answer = await asked.catch((error) => this.refused(name, error));
        if (!answer || answer.status === 304) return;
        const data = await answer.json();
        this.tags[name] = answer.headers.get("ETag");
        const text = JSON.stringify(name === "model" ? data : { ...data, version: null });
        if (signal?.aborted || this.texts[name] === text) return;
        this.texts[name] = text;
        this.take(name, data);
    }

    refused(name, error) {
        if (name !== "weights" || ![409, 413].includes(error.status)) throw error; // there are none, or too many
        this.curved = this.docs.model.config.algorithm;
        this.take("weights", null);
    }

    take(name, data) {
        this.incarnation ??= data.incarnation;
        if (data && data.incarnation !== this.incarnation) return location.reload(); // another model of this name
        this.docs[name] = data;
        if (name === "model") {
            this.docs.metrics = data.metrics;
            if (!this.has("weights")) this.docs.weights = this.texts.weights = null;
            this.noteSpeed(data);
        }
        for (const { names, listener } of this.listeners) {
            if (!names.includes(name) || !names.every((own) => own in this.docs)) continue;
            try {
                listener(this.docs);
            } catch (error) {
                console.error(error); // one part of the page that fails leaves the others as they should be
            }
        }
    }

    noteSpeed({ rows, metrics: { marks } }) {
        const [now, last] = [performance.now(), this.speeds.at(-1)];
        const put = marks.findLast(({ kind }) => kind === "restore" || kind === "import")?.row;
        if (last?.rows > rows || last?.put !== put) this.speeds = []; // rows that it has not learned in between
        this.speeds.push({ rows, now, put });
        while (this.speeds.length > 2 && this.speeds[0].now < now - SPEED_MS) this.speeds.shift();
    }

    /** Rows per second, of the last ten seconds that the page has seen; null before there are two readings. */
    speed() {
        const [now, first, last] = [performance.now(), this.speeds[0], this.speeds.at(-1)];
        if (this.speeds.length < 2) return null;
        return now - last.now > SPEED_MS ? 0 : ((last.rows - first.rows) * 1000) / Math.max(500, now - first.now);
    }
}
