/**
 * The documents of one model as they are now: what the stream has sent, and who is told when one of them changes.
 */

import { json, modelPath } from "../api.js";
import { follow } from "../live.js";

/** Where the GET of each event of the stream is, and how many items of a list the stream sends. */
const BELOW = {
    model: "",
    metrics: "metrics",
    features: "features",
    drift: "drift",
    challengers: "challengers",
    pending: "pending",
    snapshots: "snapshots",
    log: "log",
};
const LIMITED = { pending: 20, log: 50 };

/** A model and its documents. */
export class ModelDocuments {
    /** @param {string} name of the model */
    constructor(name) {
        this.name = name;
        this.docs = {};
        this.texts = {};
        this.listeners = [];
        this.speed = new Speed();
        this.stop = new AbortController();
    }

    /**
     * The address of what is below the model.
     *
     * @param {string} [below] "challengers/candidate"
     * @returns {string}
     */
    path(below = "") {
        return modelPath(this.name, below);
    }

    /**
     * Be told of the documents named, as soon as all are there and whenever one of them changes.
     *
     * @param {string[]} names events of the stream
     * @param {function(Object): void} listener takes all documents by name
     */
    when(names, listener) {
        this.listeners.push({ names, listener });
    }

    /**
     * Be told of a document once, when it is there for the first time.
     *
     * @param {string} name event of the stream
     * @param {function(Object): void} listener
     */
    once(name, listener) {
        let told = false;
        this.when([name], (docs) => {
            if (!told) listener(docs);
            told = true;
        });
    }

    /**
     * Follow the stream of the model.
     *
     * @param {function(string, Error|undefined): void} onState told of the state of the stream
     */
    follow(onState) {
        const handlers = Object.fromEntries(Object.keys(BELOW).map((name) => [name, (data) => this.take(name, data)]));
        return follow(this.path("stream"), handlers, { signal: this.stop.signal, onState });
    }

    address(name) {
        const limit = LIMITED[name] ? `?limit=${LIMITED[name]}` : "";
        return this.path(BELOW[name]) + limit;
    }

    /**
     * Ask for documents now, after an action of this page.
     *
     * @param {...string} names
     */
    async refresh(...names) {
        await Promise.all(names.map(async (name) => this.take(name, await json(this.address(name)))));
    }

    take(name, data) {
        const text = JSON.stringify(data);
        if (this.texts[name] === text) return;
        this.texts[name] = text;
        this.incarnation ??= data.incarnation;
        if (data.incarnation !== this.incarnation) {
            location.reload(); // another model of this name, of another task perhaps
            return;
        }
        this.docs[name] = data;
        if (data.rows !== undefined) this.speed.note(data.rows);
        for (const { names, listener } of this.listeners) {
            if (!names.includes(name) || !names.every((own) => own in this.docs)) continue;
            try {
                listener(this.docs);
            } catch (error) {
                console.error(error); // one part of the page that fails leaves the others as they should be
            }
        }
    }
}

/** Rows per second, of the last ten seconds that the page has seen. */
class Speed {
    constructor() {
        this.seen = [];
    }

    note(rows, now = performance.now()) {
        if (this.seen.at(-1)?.rows > rows) this.seen = []; // a reset or a restore
        this.seen.push({ rows, now });
        while (this.seen.length > 2 && this.seen[0].now < now - 10_000) this.seen.shift();
    }

    /** @returns {number|null} null before there are two readings */
    perSecond(now = performance.now()) {
        if (this.seen.length < 2) return null;
        const [first, last] = [this.seen[0], this.seen.at(-1)];
        const quiet = now - last.now > 10_000;
        return quiet ? 0 : ((last.rows - first.rows) * 1000) / Math.max(500, now - first.now);
    }
}
