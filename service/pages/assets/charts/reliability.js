// The reliability diagram: how often answers of a probability were right, beside the diagonal on which promises hold.

import { fill, h } from "../dom.js";
import { number, rowsText } from "../format.js";
import { Frame } from "./frame.js";
import { Plot, axis, colour, valueLine } from "./plot.js";

const SIDE_MAX = 320;
/** A bin of fewer rows, or of a smaller share of all, is drawn as a faint ring: its share of right ones is chance. */
const [ROWS_LEAST, PART_LEAST] = [10, 0.01];
const LEVELS = [0, 0.25, 0.5, 0.75, 1];

export class ReliabilityChart extends Frame {
    constructor({ note, file }) {
        super({ title: "Reliability", note, file, numbers: () => this.allNumbers() });
        this.bins = [];
        this.plot = new Plot(this.title, { values: (at) => this.values(at), square: SIDE_MAX });
        fill(this.body, this.plot.element);
    }

    /** Show other bins, each with `mean`, `share` and `rows`, by their means, rising. */
    update(bins = []) {
        const all = bins.reduce((sum, { rows }) => sum + rows, 0);
        this.bins = bins;
        this.telling = new Set(bins.filter(({ rows }) => rows >= ROWS_LEAST && rows >= PART_LEAST * all));
        const xs = [0, ...bins.map(({ mean }) => mean), 1];
        const line = bins.map((bin) => (this.telling.has(bin) ? bin.share : undefined));
        const data = [xs, xs, [null, ...line, null]];
        this.plot.show({ form: "reliability", options: this.options(), data, said: this.description() });
        this.refreshTable();
    }

    options() {
        const scale = { time: false, range: [0, 1] };
        const ticks = { splits: LEVELS, values: LEVELS, labelSize: 18, labelGap: 0 };
        const points = { show: false };
        return {
            scales: { x: scale, y: scale },
            axes: [
                axis({ ...ticks, label: "probability of the prediction", size: 26, grid: { show: false } }),
                axis({ ...ticks, label: "share correct", size: 34 }),
            ],
            series: [
                {},
                { stroke: () => colour("muted"), width: 1.25, dash: [1.5, 3.5], points },
                { stroke: () => colour("series-1"), width: 1.75, points },
            ],
            cursor: { y: false, drag: { x: false, y: false }, points },
            hooks: { draw: [(plot) => this.drawDots(plot)] },
        };
    }

    /** Each bin as a dot as large as its rows are many, with its distance from the diagonal. */
    drawDots({ ctx, valToPos }) {
        const most = Math.max(1, ...this.bins.map(({ rows }) => rows));
        ctx.save();
        ctx.lineWidth = devicePixelRatio;
        for (const bin of this.bins) {
            const telling = this.telling.has(bin);
            const x = valToPos(bin.mean, "x", true);
            ctx.strokeStyle = ctx.fillStyle = colour(telling ? "series-1" : "muted");
            ctx.beginPath();
            if (telling) ctx.moveTo(x, valToPos(bin.mean, "y", true));
            const radius = devicePixelRatio * (telling ? 3 + 6 * Math.sqrt(bin.rows / most) : 2.5);
            ctx.arc(x, valToPos(bin.share, "y", true), radius, Math.PI / 2, 2.5 * Math.PI);
            ctx.stroke();
            if (telling) ctx.fill();
        }
        ctx.restore();
    }

    values(at) {
        const bin = this.bins[at - 1];
        if (!bin) return h("div.muted", "the diagonal: probabilities are exact");
        return [
            h("div.muted", rowsText(bin.rows)),
            valueLine({ name: "predicted", tone: "muted" }, number(bin.mean)),
            valueLine({ name: "correct", tone: "series-1" }, number(bin.share)),
        ];
    }

    description() {
        if (!this.bins.length) return `${this.title}: no rows yet`;
        if (!this.telling.size) return `${this.title}: too few rows yet`;
        const gap = ({ mean, share }) => Math.abs(mean - share);
        const [far] = [...this.telling].sort((one, other) => gap(other) - gap(one));
        return (
            `${this.title}: ${this.telling.size} steps of probability; furthest from the diagonal ` +
            `${number(far.mean)} predicted, ${number(far.share)} correct, of ${rowsText(far.rows)}`
        );
    }

    allNumbers() {
        const rows = this.bins.map((own) => [own.mean, own.share, own.rows]);
        return { columns: ["mean probability", "share correct", "rows"], rows, json: this.bins };
    }
}
