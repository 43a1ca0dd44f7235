/**
 * The reliability diagram: how often answers of a probability were right, beside the diagonal on which promises hold.
 */

import { fill, h, s } from "../dom.js";
import { Frame } from "./frame.js";
import { number, rowsText, scale } from "./scale.js";

const MARGIN = { top: 8, right: 12, bottom: 38, left: 46 };
const SIDE_MAX = 320;
/** A bin of fewer rows, or of a smaller share of all, is drawn as a faint ring: its share of right ones is chance. */
const [ROWS_LEAST, PART_LEAST] = [10, 0.01];

/** A diagram of `reliability` of the metrics. */
export class ReliabilityChart {
    /** @param {{note: string, file: string}} given */
    constructor({ note, file }) {
        this.bins = [];
        this.frame = new Frame({ title: "Reliability", note, file, numbers: () => this.numbers() });
        this.element = this.frame.element;
        this.image = s("svg.chart-svg", { role: "img" });
        this.plot = h("div.chart-plot", this.image);
        fill(this.frame.body, this.plot);
        new ResizeObserver(() => this.draw()).observe(this.plot);
    }

    /**
     * Show other bins.
     *
     * @param {Array<{mean: number, share: number, rows: number}>} bins
     */
    update(bins) {
        this.bins = bins ?? [];
        this.draw();
        this.frame.refreshTable();
    }

    draw() {
        const width = this.plot.clientWidth;
        if (!width) return;
        const side = Math.min(width, SIDE_MAX);
        const x = scale(0, 1, MARGIN.left, side - MARGIN.right);
        const y = scale(0, 1, side - MARGIN.bottom, MARGIN.top);
        for (const [key, value] of Object.entries({ viewBox: `0 0 ${side} ${side}`, width: side, height: side })) {
            this.image.setAttribute(key, value);
        }
        this.image.setAttribute("aria-label", this.description());
        fill(this.image, this.axes(side, x, y), this.points(x, y));
    }

    axes(side, x, y) {
        const levels = [0, 0.25, 0.5, 0.75, 1];
        return [
            levels.map((value) => [
                s("line.chart-grid", { x1: x(0), x2: x(1), y1: y(value), y2: y(value) }),
                s("text.chart-tick.chart-tick-y", { x: x(0) - 8, y: y(value) + 4 }, value),
                s("text.chart-tick.chart-tick-x", { x: x(value), y: y(0) + 16 }, value),
            ]),
            s("line.chart-reference", { x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
            s("text.chart-label", { x: x(0.5), y: side - 4 }, "probability of the answer"),
            s("text.chart-label", { x: 0, y: 0, transform: `translate(11 ${y(0.5)}) rotate(-90)` },
                "share of right ones",
            ),
        ];
    }

    /** The bins of enough rows to tell something. */
    telling() {
        const all = this.bins.reduce((sum, { rows }) => sum + rows, 0);
        return this.bins.filter(({ rows }) => rows >= ROWS_LEAST && rows >= PART_LEAST * all);
    }

    points(x, y) {
        const most = Math.max(1, ...this.bins.map(({ rows }) => rows));
        const telling = this.telling();
        const path = telling.map(
            ({ mean, share }, at) => `${at ? "L" : "M"}${x(mean).toFixed(1)} ${y(share).toFixed(1)}`,
        );
        return s("g.tone-1",
            telling.map(({ mean, share }) =>
                s("line.reliability-gap", { x1: x(mean), x2: x(mean), y1: y(mean), y2: y(share) }),
            ),
            s("path.chart-line", { d: path.join("") }),
            this.bins.map((bin) => dot(bin, x, y, telling.includes(bin) ? 3 + 6 * Math.sqrt(bin.rows / most) : null)),
        );
    }

    description() {
        if (!this.bins.length) return `${this.frame.title}: no rows yet`;
        const telling = this.telling();
        if (!telling.length) return `${this.frame.title}: too few rows yet`;
        const far = telling.reduce((worst, bin) =>
            Math.abs(bin.mean - bin.share) > Math.abs(worst.mean - worst.share) ? bin : worst,
        );
        return (
            `${this.frame.title}: ${telling.length} steps of probability; furthest from the diagonal ` +
            `${number(far.mean)} said, ${number(far.share)} right, of ${rowsText(far.rows)}`
        );
    }

    numbers() {
        return {
            columns: ["mean probability", "share right", "rows"],
            rows: this.bins.map(({ mean, share, rows }) => [mean, share, rows]),
            json: this.bins,
        };
    }
}

/** A bin as a dot of a radius; as a small ring where it has none. */
function dot({ mean, share, rows }, x, y, radius) {
    return s(
        radius === null ? "circle.reliability-ring" : "circle.reliability-dot",
        { cx: x(mean), cy: y(share), r: radius ?? 2.5 },
        s("title", `${rowsText(rows)}: ${number(mean)} said, ${number(share)} right`),
    );
}
