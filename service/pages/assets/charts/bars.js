/**
 * Horizontal bars with their names and values as an HTML list, and a mark for the interval of a difference.
 */

import { h, patch } from "../dom.js";
import { Frame } from "./frame.js";
import { number } from "./scale.js";

/**
 * One bar.
 *
 * @typedef {{name: string, value: number|null, text?: string, tone?: string, faded?: boolean, note?: string}} Bar
 *     `text`: shown for the value; `note`: shown behind the value, smaller
 */

/**
 * Bars, from 0 or from a middle where some are negative.
 *
 * @param {Bar[]} bars
 * @param {{most?: number, label: string}} given `most`: value of a full bar, left out: the largest
 * @returns {HTMLElement}
 */
export function bars(list, { most, label }) {
    const full = most ?? Math.max(1e-300, ...list.map(({ value }) => Math.abs(value ?? 0)));
    const signed = list.some(({ value }) => value < 0);
    const noted = list.some(({ note }) => note);
    return h(`ul.bars${signed ? ".bars-signed" : ""}${noted ? ".bars-noted" : ""}`, { "aria-label": label },
        list.map((own) => bar(own, { full, signed, noted })),
    );
}

function bar({ name, value, text, tone = "tone-1", faded, note }, { full, signed, noted }) {
    const share = Math.min(1, Math.abs(value ?? 0) / full);
    const filled = h(`span.bars-fill.${tone}`);
    filled.style.width = `${(signed ? 50 : 100) * share}%`;
    if (signed) filled.style.left = `${value < 0 ? 50 - 50 * share : 50}%`;
    return h(`li.bars-row${faded ? ".bars-faded" : ""}`,
        h("span.bars-name", { title: name }, name),
        h("span.bars-track", { "aria-hidden": "true" }, filled),
        h("span.bars-value", text ?? number(value)),
        noted ? h("span.bars-note", { title: note }, note) : null,
    );
}

/** Bars within a frame: with a title, and their numbers as a table, CSV and JSON. */
export class BarChart {
    /** @param {{title: string, note?: string, file: string, valueName: string}} given */
    constructor({ title, note, file, valueName }) {
        this.list = [];
        this.valueName = valueName;
        this.frame = new Frame({ title, note, file, numbers: () => this.numbers() });
        this.element = this.frame.element;
    }

    /**
     * Show other bars.
     *
     * @param {Bar[]} list
     */
    update(list) {
        this.list = list;
        patch(this.frame.body, bars(list, { label: this.frame.title }));
        this.frame.refreshTable();
    }

    numbers() {
        return { columns: ["name", this.valueName], rows: this.list.map(({ name, value }) => [name, value]) };
    }
}

/**
 * An interval around zero: a line from low to high, a dot at the mean, and a line at 0.
 *
 * @param {{low: number|null, mean: number|null, high: number|null}} interval
 * @param {number} reach the value at both ends of the axis, above 0
 * @returns {HTMLElement}
 */
export function intervalMark({ low, mean, high }, reach) {
    const at = (value) => `${Math.min(100, Math.max(0, 50 + (50 * value) / reach))}%`;
    const known = mean !== null && low !== null && high !== null;
    const words = known ? `${number(mean)}, from ${number(low)} to ${number(high)}` : "not known yet";
    const element = h("span.interval", { role: "img", "aria-label": words }, h("span.interval-zero"));
    if (!known) return element;
    const tone = low > 0 ? "tone-good" : high < 0 ? "tone-bad" : "tone-base";
    const [from, to] = [Math.max(low, -reach), Math.min(high, reach)];
    const span = h(`span.interval-span.${tone}`);
    span.style.left = at(from);
    span.style.width = `${Math.max(0, (50 * (to - from)) / reach)}%`;
    const dot = h(`span.interval-mean.${tone}`);
    dot.style.left = at(mean);
    element.append(span, dot);
    return element;
}
