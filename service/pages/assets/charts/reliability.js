// The reliability diagram: how often answers of a probability were right, beside the diagonal on which promises hold.

import { fill, h } from "../dom.js";
import { number, rowsText } from "../format.js";
import { Frame } from "./frame.js";
import { Plot, axis, colour, valueLine } from "./plot.js";

const SIDE_MAX = 320;
/** A bin of fewer rows, or of a smaller share of all, is drawn as a faint ring: its share of right ones is chance. */
const [ROWS_LEAST, PART_LEAST] = [10, 0.01];
const LEVELS = [0, 0.25, 0.5, 0.75, 1];

/** A diagram of `reliability` of the metrics. */
export class ReliabilityChart {
    constructor({ note, file }) {
        this.bins = [];
        this.frame = new Frame({ title: "Reliability", note, file, numbers: () => this.numbers() });
        this.element = this.frame.element;
        this.plot = new Plot("Reliability", { values: (at) => this.values(at), square: SIDE_MAX });
        fill(this.frame.body, this.plot.element);
    }

    /** Show other bins, each with `mean`, `share` and `rows`, by their means, rising. */
    update(bins = []) {
        this.bins = bins;
        const all = this.bins.reduce((sum, { rows }) => sum + rows, 0);
        this.telling = this.bins.filter(({ rows }) => rows >= ROWS_LEAST && rows >= PART_LEAST * all);
        const xs = [0, ...this.bins.map(({ mean }) => mean), 1];
        const line = this.bins.map((bin) => (this.telling.includes(bin) ? bin.share : undefined));
        const data = [xs, xs, [null, ...line, null]];
        this.plot.show({ form: "reliability", options: this.options(), data, said: this.description() });
        this.frame.refreshTable();
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
                { stroke: () => colour("tone-1"), width: 1.75, points },
            ],
            cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
            hooks: { draw: [(plot) => this.drawDots(plot)] },
        };
    }

    /** Each bin as a dot as large as its rows are many, with its distance from the diagonal. */
    drawDots({ ctx, valToPos }) {
        const most = Math.max(1, ...this.bins.map(({ rows }) => rows));
        ctx.save();
        ctx.lineWidth = devicePixelRatio;
        for (const bin of this.bins) {
            const telling = this.telling.includes(bin);
            const [x, y] = [valToPos(bin.mean, "x", true), valToPos(bin.share, "y", true)];
            ctx.strokeStyle = ctx.fillStyle = colour(telling ? "tone-1" : "muted");
            ctx.beginPath();
            if (telling) {
                ctx.moveTo(x, valToPos(bin.mean, "y", true));
                ctx.lineTo(x, y);
                ctx.stroke();
            }
            ctx.beginPath();
            ctx.arc(x, y, devicePixelRatio * (telling ? 3 + 6 * Math.sqrt(bin.rows / most) : 2.5), 0, 2 * Math.PI);
            if (telling) ctx.fill();
            else ctx.stroke();
        }
        ctx.restore();
    }

    values(at) {
        const bin = this.bins[at - 1];
        if (!bin) return [h("div.crosshair-row", "the diagonal: promises hold")];
        const line = (name, value, tone) => valueLine({ name, tone }, value);
        const shown = [line("said", number(bin.mean), "tone-base"), line("right", number(bin.share), "tone-1")];
        return [h("div.crosshair-row", rowsText(bin.rows)), shown];
    }

    description() {
        const { title } = this.frame;
        if (!this.bins.length) return `${title}: no rows yet`;
        if (!this.telling.length) return `${title}: too few rows yet`;
        const gap = ({ mean, share }) => Math.abs(mean - share);
        const far = this.telling.reduce((worst, bin) => (gap(bin) > gap(worst) ? bin : worst));
        return (
            `${title}: ${this.telling.length} steps of probability; furthest from the diagonal ` +
            `${number(far.mean)} predicted, ${number(far.share)} correct, of ${rowsText(far.rows)}`
        );
    }

    numbers() {
        const rows = this.bins.map((own) => [own.mean, own.share, own.rows]);
        return { columns: ["mean probability", "share right", "rows"], rows, json: this.bins };
    }
}
