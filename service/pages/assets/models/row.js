/**
 * One model as a row of the list: made once, then changed in place where something has changed.
 */

import { ago, figure, whole } from "../format.js";
import { root } from "../api.js";
import { comparison, judged } from "../comparison.js";
import { h } from "../dom.js";

const DRIFTS = { class_mean: "feature means", error_rate: "error rate", unlabelled: "before labels" };
const PHASES = { overlap: "accent", ensemble: "accent", down: "bad" };
const RECENT_S = 120;

export class Row {
    /** @param {object} model an element of GET /models */
    constructor(model) {
        const cell = (label, ...children) => h("td", { role: "cell", data: { label } }, children);
        this.model = {};
        this.link = h("a", { href: new URL(`ui/models/${encodeURIComponent(model.name)}`, root) }, model.name);
        this.kind = h("span.sub");
        this.score = h("span");
        this.scoreName = h("span.sub");
        this.bar = h("span.versus", { "aria-hidden": "true" }, h("span.versus-part"));
        this.versus = h("span");
        this.baseline = h("span.sub");
        this.rows = cell("Rows");
        this.speed = cell("Rows/s");
        this.phase = h("span");
        this.drift = h("span");
        this.driftKind = h("span.sub");
        this.challengers = h("span");
        this.driftCell = cell("Last drift", this.drift, this.driftKind);
        this.challengersCell = cell("Challengers", this.challengers);
        this.rows.classList.add("num");
        this.speed.classList.add("num");
        const score = cell("Score", this.score, this.scoreName);
        score.classList.add("num");
        this.element = h("tr", { role: "row" },
            h("th", { role: "rowheader", scope: "row" }, this.link, this.kind),
            score,
            cell("Error", h("span.versus-line", this.bar, this.versus), this.baseline),
            this.rows,
            this.speed,
            cell("Phase", this.phase),
            this.driftCell,
            this.challengersCell,
        );
        this.update(model);
    }

    /**
     * Show the model as it is now.
     * @param {object} model
     * @returns {string[]} what has happened to it since it was shown last, in words
     */
    update(model) {
        const before = this.model;
        this.model = model;
        text(this.kind, `${model.algorithm} · ${model.task}`);
        const { name, own, text: written } = judged(model);
        text(this.score, written(own));
        text(this.scoreName, own === null ? "" : name);
        this.#compare(comparison(...judged(model).errors, model.rows));
        text(this.rows, rowsText(model.rows));
        this.rows.title = whole(model.rows);
        text(this.speed, speedText(model.rows_per_s));
        badge(this.phase, model.phase, PHASES[model.phase]);
        this.#challengers(model.challengers, model.ahead);
        this.tick();
        return before.name === undefined ? [] : happened(before, model);
    }

    /** Say again how long ago things were. */
    tick() {
        const { drift } = this.model;
        const recent = Boolean(drift) && Date.now() - Date.parse(drift.time) < RECENT_S * 1000;
        text(this.drift, drift ? ago(drift.time) : "–");
        this.drift.className = recent ? "badge warn" : drift ? "" : "muted";
        this.drift.title = drift ? `row ${whole(drift.row)}, ${drift.time}` : "";
        this.driftCell.dataset.empty = String(!drift);
        text(this.driftKind, drift ? DRIFTS[drift.kind] ?? drift.kind : "");
    }

    #compare(found) {
        const part = found?.part ?? null;
        this.bar.hidden = part === null;
        this.versus.className = found?.kind || "muted";
        text(this.versus, found?.text ?? "–");
        const { other, text: written } = judged(this.model);
        const rows = this.model.task === "regression" ? "of the rows that it predicted" : "of all rows";
        text(this.baseline, found === null || other === null ? "" : `baseline ${written(other)}, ${rows}`);
        if (part !== null) {
            const drawn = this.bar.firstChild;
            drawn.className = `versus-part ${found.kind}`;
            drawn.style.width = `${50 * Math.abs(part)}%`;
            drawn.style[part < 0 ? "right" : "left"] = "50%";
            drawn.style[part < 0 ? "left" : "right"] = "auto";
        }
    }

    #challengers(count, ahead) {
        if (ahead) {
            badge(this.challengers, `${ahead} of ${count} ahead`, "accent");
        } else {
            text(this.challengers, count ? String(count) : "–");
            this.challengers.className = count ? "" : "muted";
        }
        this.challengersCell.dataset.empty = String(!count);
    }
}

const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });

function rowsText(rows) {
    return rows >= 1e7 ? SHORT.format(rows) : whole(rows);
}

/** Rows per second as text: more figures where they are few. */
export function speedText(speed) {
    if (speed === null || speed === undefined) return "–";
    return speed > 0 && speed < 10 ? figure(Number(speed.toPrecision(2))) : whole(speed);
}

function happened(before, now) {
    const found = [];
    if (before.phase !== now.phase) found.push(`${now.name} is now ${now.phase}`);
    if (now.drift && before.drift?.time !== now.drift.time) {
        found.push(`drift in ${now.name}, ${DRIFTS[now.drift.kind] ?? now.drift.kind}`);
    }
    if ((now.ahead ?? 0) > (before.ahead ?? 0)) found.push(`a challenger of ${now.name} is ahead`);
    return found;
}

function badge(place, said, kind) {
    text(place, said);
    place.className = kind ? `badge ${kind}` : "muted";
}

function text(place, said) {
    if (place.textContent !== said) place.textContent = said;
}
