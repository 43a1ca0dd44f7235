// The rows of the list. Rows stay where they are while somebody reads them: values change in place, a model that comes
// takes the place of one that has gone or stands at the end, until the order is made anew (page.js).

import { root } from "../api.js";
import { signedTrack, sparkline } from "../charts/bars.js";
import { comparison, judged, light } from "../comparison.js";
import { h, patch } from "../dom.js";
import { ago, count, figure, whole } from "../format.js";

const DRIFTS = { class_mean: "feature means", error_rate: "error rate", unlabelled: "before labels" };
const RECENT_MS = 120_000;

export class List {
    constructor(tbody) {
        this.tbody = tbody;
        this.models = new Map(); // by name, in the service's order
        this.shown = []; // names, as they stand
    }

    /** Take in the page of models as it is now, `anew` in this order; returns what has happened, in words. */
    update(models, anew) {
        const news = models.flatMap((model) => happened(this.models.get(model.name) ?? model, model));
        this.models = new Map(models.map((model) => [model.name, model]));
        this.shown = kept(anew ? [] : this.shown, [...this.models.keys()]);
        this.draw();
        return news;
    }

    /** Whether rows stand in another order than the service's. */
    get unsorted() {
        return [...this.models.keys()].some((name, at) => name !== this.shown[at]);
    }

    /** Show the models; how long ago things were, too. */
    draw() {
        patch(this.tbody, this.shown.map((name) => row(this.models.get(name))));
    }
}

/** An order of the wanted names in which nothing moves that can stay. */
export function kept(shown, wanted) {
    const coming = wanted.filter((name) => !shown.includes(name));
    const filled = shown.map((name) => (wanted.includes(name) ? name : coming.shift()));
    return [...filled.filter((name) => name !== undefined), ...coming];
}

function happened(before, now) {
    const drifted = now.drift && before.drift?.time !== now.drift.time;
    return [
        before.phase !== now.phase && `${now.name} is now ${now.phase}`,
        drifted && `drift in ${now.name}, ${DRIFTS[now.drift.kind] ?? now.drift.kind}`,
        (now.ahead ?? 0) > (before.ahead ?? 0) && `a challenger of ${now.name} is ahead`,
    ].filter(Boolean);
}

function row(model) {
    const { name, algorithm, task, rows, rows_per_s: speed, drift, challengers, ahead } = model;
    const score = judged(model);
    const some = ahead ? h("span.badge.accent", `${ahead} of ${challengers} ahead`) : challengers;
    const each = sub(speed > 0 ? `${speedText(speed)} a second` : "");
    const href = new URL(`ui/models/${encodeURIComponent(name)}`, root);
    return h("tr", { role: "row", data: { key: name } },
        h("th", { role: "rowheader", scope: "row" }, h("a", { href }, name), sub(`${algorithm} · ${task}`)),
        cell("Status", "", light(model, "span.sub.status-why")),
        cell("Score", ".num", [h("span", score.own), sub(model.error === null ? "" : score.name)]),
        cell("Recent", "", course(model)),
        cell("Error", "", errorParts(model, score)),
        cell("Rows", ".num", [h("span", { title: whole(rows) }, rows >= 1e7 ? count(rows) : whole(rows)), each]),
        cell("Last drift", "", drift && driftParts(drift)),
        cell("Challengers", "", some),
    );
}

/** A cell; a phone shows none that is empty. */
const cell = (label, kind, children) =>
    h(`td${kind}`, { role: "cell", data: { label, empty: !children } }, children || h("span.muted", "–"));

const sub = (text) => h("span.sub", text);

/** How the score of the window has moved lately. */
function course({ task, recent }) {
    if (recent.length < 2) return null;
    const score = task === "regression" ? "mean squared error" : "accuracy";
    const label = `Recent ${score}: ${figure(recent[0])} to ${figure(recent.at(-1))}`;
    return sparkline(recent, { label, width: 84, height: 30 });
}

/** The model's error compared with its baseline's: a bar from the middle, to the right if smaller, and in words. */
function errorParts({ error, baseline_error: least, rows }, { other }) {
    const found = comparison(error, least, rows);
    if (!found) return null;
    const kind = found.kind || "muted";
    const bar = found.part !== null && signedTrack(found.part, kind);
    return [
        h("span.versus-line.bars-signed", bar, h(`span.${kind}`, found.text)),
        sub(least === null ? "" : `baseline ${other} over the last rows`),
    ];
}

function driftParts(drift) {
    const recent = Date.now() - Date.parse(drift.time) < RECENT_MS;
    const title = `row ${whole(drift.row)}, ${drift.time}`;
    return [h(recent ? "span.badge.warn" : "span", { title }, ago(drift.time)), sub(DRIFTS[drift.kind] ?? drift.kind)];
}

/** Rows per second as text: more figures where they are few. */
export const speedText = (speed) => (speed > 0 && speed < 10 ? figure(Number(speed.toPrecision(2))) : whole(speed));
