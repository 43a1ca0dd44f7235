// The rows of the list. Rows stay where they are while somebody reads them: values change in place, a model that comes
// takes the place of one that has gone or stands at the end, until the order is made anew (page.js).

import { root } from "../api.js";
import { sparkline } from "../charts/bars.js";
import { comparison, judged, light, lightOf } from "../comparison.js";
import { h, patch } from "../dom.js";
import { ago, figure, whole } from "../format.js";

const DRIFTS = { class_mean: "feature means", error_rate: "error rate", unlabelled: "before labels" };
const NONE = "–";
const RECENT_MS = 120_000;
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });

export class List {
    /** @param {HTMLElement} body a tbody */
    constructor(body) {
        this.body = body;
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

    /** Put the rows into the service's order. */
    sort() {
        this.shown = [...this.models.keys()];
        this.draw();
    }

    /** Show the models; how long ago things were, too. */
    draw() {
        patch(this.body, this.shown.map((name) => row(this.models.get(name))));
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
    const contest = ahead ? badge(`${ahead} of ${challengers} ahead`, "accent") : challengers || h("span.muted", NONE);
    const href = new URL(`ui/models/${encodeURIComponent(name)}`, root);
    return h("tr", { role: "row", data: { key: name } },
        h("th", { role: "rowheader", scope: "row" }, h("a", { href }, name), sub(`${algorithm} · ${task}`)),
        cell("Status", "", statusParts(lightOf(model))),
        cell("Score", ".num", [h("span", score.text(score.own)), sub(score.own === null ? "" : score.name)]),
        cell("Recent", "", course(model), !model.recent.length),
        cell("Error", "", errorParts(model, score)),
        cell("Rows", ".num", [h("span", { title: whole(rows) }, rows >= 1e7 ? SHORT.format(rows) : whole(rows)),
            sub(speed > 0 ? `${speedText(speed)} a second` : "")]),
        cell("Last drift", "", driftParts(drift), !drift),
        cell("Challengers", "", contest, !challengers),
    );
}

function cell(label, kind, children, empty = false) {
    return h(`td${kind}`, { role: "cell", data: { label, empty } }, children);
}

const sub = (text) => h("span.sub", text);
const badge = (text, kind) => h(kind ? `span.badge.${kind}` : "span.muted", text);

const statusParts = (found) => [light(found), h("span.sub.status-why", found.sentence)];

/** How the score of the window has moved lately. */
function course({ task, recent }) {
    if (recent.length < 2) return h("span.muted", NONE);
    const score = task === "regression" ? "mean squared error" : "accuracy";
    const label = `Recent ${score}: ${figure(recent[0])} to ${figure(recent.at(-1))}`;
    return sparkline(recent, { label, width: 84, height: 30, tone: "tone-1" });
}

/** The model's error compared with its baseline's: a bar from the middle, to the right if smaller, and in words. */
function errorParts({ task, rows }, { errors, other, text }) {
    const found = comparison(...errors, rows);
    if (!found) return h("span.muted", NONE);
    const { part, kind } = found;
    const drawn = h(`span.versus-part${kind && `.${kind}`}`);
    drawn.style.width = `${50 * Math.abs(part ?? 0)}%`;
    drawn.style[part < 0 ? "right" : "left"] = "50%";
    const bar = part === null ? null : h("span.versus", { "aria-hidden": "true" }, drawn);
    const of = task === "regression" ? "of the rows that it predicted" : "of all rows";
    return [
        h("span.versus-line", bar, h(kind ? `span.${kind}` : "span.muted", found.text)),
        sub(other === null ? "" : `baseline ${text(other)}, ${of}`),
    ];
}

function driftParts(drift) {
    if (!drift) return h("span.muted", NONE);
    const recent = Date.now() - Date.parse(drift.time) < RECENT_MS;
    const title = `row ${whole(drift.row)}, ${drift.time}`;
    return [h(recent ? "span.badge.warn" : "span", { title }, ago(drift.time)), sub(DRIFTS[drift.kind] ?? drift.kind)];
}

/** Rows per second as text: more figures where they are few. */
export const speedText = (speed) => (speed > 0 && speed < 10 ? figure(Number(speed.toPrecision(2))) : whole(speed));
