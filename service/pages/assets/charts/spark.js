// A line as small as a word, for tables: the course of a score without axes.

import { s } from "../dom.js";

/** A sparkline of values in order, where null is a gap; `label` stands in its place. */
export function sparkline(values, { width, height, label, tone }) {
    const known = values.filter(Number.isFinite);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const x = (at) => (1 + (at * (width - 4)) / Math.max(1, values.length - 1)).toFixed(1);
    const y = (value) => (height - 4 - ((value - low) * (height - 8)) / (high - low || 1)).toFixed(1);
    const path = values.map((value, at) =>
        Number.isFinite(value) ? `${Number.isFinite(values[at - 1]) ? "L" : "M"}${x(at)} ${y(value)}` : "",
    );
    const last = values.at(-1);
    const dot = Number.isFinite(last) ? s("circle.chart-dot", { cx: x(values.length - 1), cy: y(last), r: 2 }) : null;
    const how = { role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, width, height };
    return s(`svg.spark.${tone}`, how, s("path.spark-line", { d: path.join("") }), dot);
}
