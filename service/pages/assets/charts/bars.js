// Horizontal bars with their names and values as an HTML list; marks as small as a word, for tables: the interval of a
// difference, and the course of a score without axes.

import { h, s } from "../dom.js";
import { number } from "../format.js";

/**
 * @typedef {{name: string, value: number|null, text?: string, tone?: string, faded?: boolean, note?: string,
 *     goal?: number}} Bar
 *     `text`: shown for the value; `note`: shown behind the value, smaller; `goal`: what it should be, marked
 */

/** Bars, from 0 or from a middle where some are negative; `most` is the value of a full one, left out: the largest. */
export function bars(list, { most, label, kind = "" }) {
    const full = most ?? Math.max(1e-300, ...list.map(({ value }) => Math.abs(value ?? 0)));
    const signed = list.some(({ value }) => value < 0);
    const noted = list.some(({ note }) => note);
    const kinds = `${kind}${signed ? ".bars-signed" : ""}${noted ? ".bars-noted" : ""}`;
    return h(`ul.bars${kinds}`, { "aria-label": label }, list.map((own) => bar(own, { full, signed, noted })));
}

function bar({ name, value, text, tone, faded, note, goal }, { full, signed, noted }) {
    const share = (value ?? 0) / full;
    const mark = goal !== undefined && h("span.bars-goal", { style: { left: `${(100 * goal) / full}%` } });
    return h(`li.bars-row${faded ? ".bars-faded" : ""}`,
        h("span.bars-name", { title: name }, name),
        signed ? signedTrack(share, tone) : track(0, share, tone, mark),
        h("span.bars-value", text ?? number(value)),
        noted && h("span.bars-note", { title: note }, note),
    );
}

/** A filled part of a bar, from 0 to 1. */
export function track(from, part, tone = "series-1", ...marks) {
    const style = { left: `${100 * from}%`, width: `${100 * Math.min(1, part)}%` };
    return h("span.bars-track", { "aria-hidden": "true" }, h("span.bars-fill", { tone, style }), marks);
}

/** A bar that is filled from its middle, as far as a share from -1 to 1 says. */
export const signedTrack = (share, tone) => track(Math.min(0.5, 0.5 + share / 2), Math.abs(share) / 2, tone);

/** An interval around zero, a line from low to high with a dot at the mean; the axis ends at `reach` on both sides. */
export function intervalMark({ low, mean, high }, reach) {
    const known = mean !== null && low !== null && high !== null;
    const words = known ? `${number(mean)}, from ${number(low)} to ${number(high)}` : "not known yet";
    const tone = low > 0 ? "good" : high < 0 ? "bad" : "muted";
    const at = (value) => `${Math.min(100, Math.max(0, 50 + (50 * value) / reach))}%`;
    return h("span.interval", { role: "img", "aria-label": words },
        known && h("span.interval-span", { tone, style: { left: at(low), right: at(-high) } }),
        known && h("span.interval-mean", { tone, style: { left: at(mean) } }),
    );
}

/** A sparkline of values in order, where null is a gap; `label` stands in its place. */
export function sparkline(values, { width, height, label, tone = "series-1" }) {
    const known = values.filter(Number.isFinite);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const x = (at) => (1 + (at * (width - 4)) / Math.max(1, values.length - 1)).toFixed(1);
    const y = (value) => (height - 4 - ((value - low) * (height - 8)) / (high - low || 1)).toFixed(1);
    const path = values.map((value, at) =>
        Number.isFinite(value) ? `${Number.isFinite(values[at - 1]) ? "L" : "M"}${x(at)} ${y(value)}` : "",
    );
    const last = values.at(-1);
    const dot = Number.isFinite(last) ? s("circle.chart-dot", { cx: x(values.length - 1), cy: y(last), r: 2 }) : null;
    const how = { role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, width, height, tone };
    return s("svg.spark", how, s("path.spark-line", { d: path.join("") }), dot);
}
