/**
 * Lines over rows: several series with gaps, a crosshair, marks, references, and a legend that hides and shows.
 *
 * The picture is one SVG image with a text alternative; what can be pressed (legend, marks, tools) are HTML buttons
 * around it, and arrow keys move the crosshair. At most one point for every two pixels is drawn (`thin.js`).
 */

import { fill, h, patch, s } from "../dom.js";
import { Crosshair } from "./crosshair.js";
import { Frame } from "./frame.js";
import { chipButtons, placed } from "./marks.js";
import { count, logTicks, number, range, scale, ticks } from "./scale.js";
import { thinned } from "./thin.js";

const MARGIN = { top: 10, right: 14, bottom: 26, left: 46 };
const LANE = 24;
const PIXELS_PER_POINT = 2;
/** The axis is made for all points but the first few, whose scores are of a handful of rows; lines end there. */
const EARLY_SHARE = 0.03;
const EARLY_POINTS = 30;
let plots = 0;

/**
 * What a chart shows.
 *
 * @typedef {{key: string, name: string, tone: string, points: Array<[number, number|null]>, dashed?: boolean}} Series
 *     `tone`: a class of charts.css, "tone-1" to "tone-8" or "tone-base"; a null is a gap
 * @typedef {{series: Series[], references?: Array<{key: string, name: string, y: number|null,
 *     from?: number}>, marks?: import("./marks.js").Mark[], y?: Object, log?: boolean, empty?: string}} Shown
 *     `references`: horizontal lines, from a row on or over all; `y`: as `range` of scale.js takes it; `empty`: what is
 *     said without a point
 */

/** A chart of lines. */
export class LineChart {
    /**
     * @param {{title: string, note?: string, file: string, height?: number, tools?: boolean,
     *     onMarks?: function(import("./marks.js").Mark[], HTMLElement): void}} given
     */
    constructor({ title, note, file, height = 240, tools, onMarks = () => {} }) {
        this.height = height;
        this.onMarks = onMarks;
        this.hidden = new Set();
        this.shown = { series: [] };
        this.frame = new Frame({ title, note, file, tools, numbers: () => this.numbers() });
        this.element = this.frame.element;
        plots += 1;
        this.clip = `chart-clip-${plots}`;
        this.image = s("svg.chart-svg", { role: "img", height });
        this.chips = h("div.chart-chips", { role: "group", "aria-label": `${title}: what happened`, hidden: true });
        this.crosshair = new Crosshair(this);
        this.plot = h("div.chart-plot", this.image, this.crosshair.element);
        fill(this.frame.body, this.chips, this.plot);
        new ResizeObserver(() => this.draw()).observe(this.plot);
    }

    /**
     * Show something else.
     *
     * @param {Shown} shown
     */
    update(shown) {
        this.shown = shown;
        this.drawLegend();
        this.draw();
        this.frame.refreshTable();
    }

    /** The series that are not hidden, thinned out for the present width. */
    drawn() {
        const room = Math.max(2, Math.floor((this.width - MARGIN.left - MARGIN.right) / PIXELS_PER_POINT));
        return this.shown.series
            .filter(({ key }) => !this.hidden.has(key))
            .map((own) => ({ ...own, points: thinned(own.points.length, room).map((at) => own.points[at]) }));
    }

    references() {
        return (this.shown.references ?? []).filter(
            ({ key, y }) => y !== null && y !== undefined && !this.hidden.has(key),
        );
    }

    draw() {
        this.width = this.plot.clientWidth;
        if (!this.width) return;
        const series = this.drawn();
        this.place(series);
        this.image.setAttribute("height", this.height);
        this.image.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
        this.image.setAttribute("aria-label", this.description());
        fill(
            this.image,
            this.grid(),
            this.markLines(),
            this.referenceLines(),
            this.clipped(series.map((own) => this.line(own))),
        );
        if (!series.some(({ points }) => points.length)) this.image.append(this.nothing());
        this.drawChips();
        this.crosshair.refresh(series);
    }

    /** Scales of the present data and width. */
    place(series) {
        const { y = {}, log = false, marks = [] } = this.shown;
        const xs = [
            ...series.flatMap(({ points }) => [points[0]?.[0], points.at(-1)?.[0]]),
            ...marks.map(({ x }) => x),
        ];
        const known = xs.filter((x) => x !== undefined);
        const [first, last] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
        this.span = [first, last > first ? last : first + 1];
        const values = series.flatMap(({ points }) => settled(points, this.span).map(([, value]) => value ?? NaN));
        this.log = log;
        this.high = range([...values, ...this.references().map((own) => own.y)], { ...y, log });
        this.x = scale(...this.span, MARGIN.left, this.width - MARGIN.right);
        this.y = scale(...this.high, this.height - MARGIN.bottom, MARGIN.top, log);
    }

    grid() {
        const bottom = this.height - MARGIN.bottom;
        const rows = Math.max(2, Math.floor((bottom - MARGIN.top) / 42));
        const levels = this.log ? logTicks(...this.high, rows) : ticks(...this.high, rows);
        const digits = decimals(levels);
        const columns = ticks(...this.span, Math.max(2, Math.floor(this.width / 110))).filter(Number.isInteger);
        return [
            levels.map((value) => [
                s("line.chart-grid", {
                    x1: MARGIN.left,
                    x2: this.width - MARGIN.right,
                    y1: this.y(value),
                    y2: this.y(value),
                }),
                s("text.chart-tick.chart-tick-y", { x: MARGIN.left - 8, y: this.y(value) + 4 },
                    tickText(value, digits),
                ),
            ]),
            s("line.chart-axis", { x1: MARGIN.left, x2: this.width - MARGIN.right, y1: bottom, y2: bottom }),
            columns.map((value, at) => {
                const last = at === columns.length - 1 && this.x(value) > this.width - 50;
                const side = last ? ".chart-tick-end" : "";
                return s(`text.chart-tick.chart-tick-x${side}`,
                    { x: last ? this.width - 4 : this.x(value), y: bottom + 18 },
                    count(value),
                );
            }),
        ];
    }

    clipped(lines) {
        const [x, y] = [MARGIN.left - 4, MARGIN.top - 4];
        const [width, height] = [this.width - MARGIN.right - x + 4, this.height - MARGIN.bottom - y + 2];
        return [
            s("clipPath", { id: this.clip }, s("rect", { x, y, width: Math.max(0, width), height })),
            s("g", { "clip-path": `url(#${this.clip})` }, lines),
        ];
    }

    line({ tone, points, dashed }) {
        let path = "";
        let alone = null;
        let pen = false;
        const dots = [];
        for (const [at, value] of points) {
            if (value === null || !Number.isFinite(value) || (this.log && value <= 0)) {
                if (alone) dots.push(alone);
                pen = false;
                alone = null;
                continue;
            }
            const x = this.x(at).toFixed(1);
            const y = this.y(value).toFixed(1);
            path += `${pen ? "L" : "M"}${x} ${y}`;
            alone = pen ? null : [x, y];
            pen = true;
        }
        if (alone) dots.push(alone);
        return s(`g.${tone}`,
            s(`path.chart-line${dashed ? ".chart-line-dashed" : ""}`, { d: path }),
            dots.map(([x, y]) => s("circle.chart-dot", { cx: x, cy: y, r: 2.5 })),
        );
    }

    referenceLines() {
        return this.references().map(({ y, from }) => {
            const x1 = from === undefined ? MARGIN.left : Math.max(MARGIN.left, this.x(from));
            return s("line.chart-reference", { x1, x2: this.width - MARGIN.right, y1: this.y(y), y2: this.y(y) });
        });
    }

    markLines() {
        const bottom = this.height - MARGIN.bottom;
        return (this.shown.marks ?? []).map(({ x, kind }) =>
            s("line.chart-mark", { x1: this.x(x), x2: this.x(x), y1: 0, y2: bottom, "data-kind": kind }),
        );
    }

    drawChips() {
        const marks = [...(this.shown.marks ?? [])].sort((one, other) => one.x - other.x);
        const chips = placed(marks, this.x, 0, this.width);
        const lanes = Math.max(0, ...chips.map(({ lane }) => lane + 1));
        this.chips.hidden = !chips.length;
        this.chips.style.height = `${lanes * LANE}px`;
        patch(this.chips, chipButtons(chips, this.onMarks));
    }

    drawLegend() {
        const { series, references = [] } = this.shown;
        const all = [
            ...series,
            ...references.filter(({ y }) => y !== null).map((own) => ({ ...own, tone: "tone-base", reference: true })),
        ];
        const written = JSON.stringify(all.map(({ key, name, tone }) => [key, name, tone]));
        this.frame.legend.hidden = all.length < 2;
        if (written === this.written) return;
        this.written = written;
        fill(this.frame.legend, all.map((own) => this.legendButton(own)));
    }

    legendButton({ key, name, tone, dashed, reference }) {
        const stroke = reference ? ".key-reference" : dashed ? ".key-dashed" : "";
        const button = h("button.chart-key",
            {
                type: "button",
                "aria-pressed": String(!this.hidden.has(key)),
                on: {
                    click: () => {
                        if (!this.hidden.delete(key)) this.hidden.add(key);
                        button.setAttribute("aria-pressed", String(!this.hidden.has(key)));
                        this.draw();
                    },
                },
            },
            h(`span.key-line${stroke}.${tone}`, { "aria-hidden": "true" }),
            name,
        );
        return button;
    }

    nothing() {
        return s("text.chart-empty", { x: this.width / 2, y: this.height / 2 }, this.shown.empty ?? "No rows yet");
    }

    description() {
        const lines = this.shown.series
            .filter(({ points }) => points.length)
            .map(({ name, points }) => `${name} ${number(points.at(-1)[1])}`);
        if (!lines.length) return `${this.frame.title}: ${this.shown.empty ?? "no rows yet"}`;
        const [first, last] = this.span;
        const marks = this.shown.marks?.length ? `; ${this.shown.marks.length} marks` : "";
        const where = `row ${count(first)} to ${count(last)}`;
        return `${this.frame.title}, ${where}; at the end ${lines.join(", ")}${marks}`;
    }

    numbers() {
        const { series, references = [] } = this.shown;
        const rows = new Map();
        series.forEach(({ points }, at) => {
            for (const [x, value] of points) {
                if (!rows.has(x)) rows.set(x, new Array(series.length).fill(null));
                rows.get(x)[at] = value;
            }
        });
        const levels = (x) => references.map(({ y, from = x }) => (x < from ? null : y));
        const sorted = [...rows].sort(([one], [other]) => one - other);
        return {
            columns: ["row", ...series.map(({ name }) => name), ...references.map(({ name }) => name)],
            rows: sorted.map(([x, values]) => [x, ...values, ...levels(x)]),
        };
    }
}

function settled(points, [first, last]) {
    return points.length < EARLY_POINTS ? points : points.filter(([x]) => x - first >= EARLY_SHARE * (last - first));
}

function decimals(levels) {
    if (levels.length < 2) return 3;
    const step = Math.min(...levels.slice(1).map((value, at) => value - levels[at]));
    return Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
}

function tickText(value, digits) {
    const size = Math.abs(value);
    if (size >= 1e4) return count(value);
    if (size && size < 1e-4) return value.toExponential(0);
    return value.toFixed(size >= 1 && digits > 2 ? 2 : digits);
}
