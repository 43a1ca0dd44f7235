/**
 * A line as small as a word, for tables: the course of a score without axes.
 */

import { s } from "../dom.js";
import { range, scale } from "./scale.js";
import { thinned } from "./thin.js";

/**
 * A sparkline.
 *
 * @param {Array<number|null>} values in order; null is a gap
 * @param {{width: number, height: number, label: string, tone: string}} given
 * @returns {SVGElement}
 */
export function sparkline(values, { width, height, label, tone }) {
    const kept = thinned(values.length, width).map((at) => [at, values[at]]);
    const [low, high] = range(values.map((value) => value ?? NaN));
    const x = scale(0, Math.max(1, values.length - 1), 1, width - 3);
    const y = scale(low, high, height - 3, 3);
    let path = "";
    let pen = false;
    for (const [at, value] of kept) {
        if (value === null || value === undefined) {
            pen = false;
            continue;
        }
        path += `${pen ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
        pen = true;
    }
    const last = kept.at(-1);
    const dot = pen && last ? s("circle.chart-dot", { cx: x(last[0]), cy: y(last[1]), r: 2 }) : null;
    return s(`svg.spark.${tone}`,
        { role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, width, height },
        s("path.spark-line", { d: path }),
        dot,
    );
}
