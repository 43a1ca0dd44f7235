/**
 * The documents of one model as they are now, looked at every two seconds, and who is told when one of them changes.
 */

import { modelPath, request } from "../api.js";
import { poll } from "../poll.js";

/** Where each document is. */
const BELOW = {
    model: "",
    features: "features",
    drift: "drift?order=newest",
    challengers: "challengers",
    pending: "pending?limit=20",
    snapshots: "snapshots",
    log: "log?limit=6",
};
/** Documents that the store has, one in each look; drift events also where the marks say that there are new ones. */
const IN_TURN = ["pending", "drift", "log", "drift", "snapshots", "drift"];

/** Headers of looks: what was rendered for another page half a second ago will do. */
export const SHARED = { "Cache-Control": "max-age=1" };

/** A model and its documents. */
export class ModelDocuments {
    /** @param {string} name of the model */
    constructor(name) {
        this.name = name;
        this.docs = {};
        this.texts = {};
        this.tags = {};
        this.listeners = [];
        this.looks = 0;
        this.whole = false; // whether the last look has seen everything that it wanted to
        this.speed = new Speed();
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
     * @param {string[]} names of BELOW, or "metrics", which are part of the model's
     * @param {function(Object): void} listener takes all documents by name
     */
    when(names, listener) {
        this.listeners.push({ names, listener });
    }

    /**
     * Look at the model for as long as the page is looked at.
     *
     * @param {function(string, Error|undefined): void} onState told whether that works
     */
    follow(onState) {
        return poll((signal) => this.look(signal), { onState });
    }

    /** Look at what a new version may have changed, and at the rest now and then; at everything after a failure. */
    async look(signal) {
        const how = { signal, headers: SHARED };
        const changed = await this.read("model", how);
        const { phase, info } = this.docs.model;
        const space = JSON.stringify([phase, info.features]);
        const names = new Set([IN_TURN[this.looks++ % IN_TURN.length], changed ? "challengers" : "drift"]);
        if (changed && (phase !== "steady" || space !== this.space)) names.add("features");
        this.space = space;
        const wanted = this.whole ? [...names] : Object.keys(BELOW).slice(1);
        this.whole = false;
        await Promise.all(wanted.map((name) => this.read(name, how)));
        const learners = [this.docs.model, ...this.docs.challengers.challengers];
        const marks = JSON.stringify(learners.map((own) => own.metrics.marks));
        if (marks !== this.marks && !wanted.includes("drift")) await this.read("drift", how);
        this.marks = marks;
        this.whole = true;
    }

    /**
     * Ask for documents now, after an action of this page.
     *
     * @param {...string} names of BELOW
     */
    async refresh(...names) {
        await Promise.all(names.map((name) => this.read(name)));
    }

    /** Ask for a document; whether it is another one than before. */
    async read(name, { signal, headers = {} } = {}) {
        const known = this.tags[name] ? { "If-None-Match": this.tags[name] } : {};
        const answer = await request(this.path(BELOW[name]), { signal, headers: { ...headers, ...known } });
        if (answer.status === 304) return false;
        const data = await answer.json();
        this.tags[name] = answer.headers.get("ETag");
        const text = JSON.stringify(name === "model" ? data : { ...data, version: null });
        if (signal?.aborted || this.texts[name] === text) return false;
        this.texts[name] = text;
        this.take(name, data);
        return true;
    }

    take(name, data) {
        this.incarnation ??= data.incarnation;
        if (data.incarnation !== this.incarnation) {
            location.reload(); // another model of this name, of another task perhaps
            return;
        }
        this.docs[name] = data;
        const news = [name];
        if (name === "model") {
            this.docs.metrics = data.metrics;
            news.push("metrics");
            this.speed.note(data.rows);
        }
        for (const { names, listener } of this.listeners) {
            if (!names.some((own) => news.includes(own)) || !names.every((own) => own in this.docs)) continue;
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
