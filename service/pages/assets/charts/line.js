// Lines over rows: several series with gaps, a crosshair, marks, references, and a legend that hides and shows. What
// can be pressed (legend, marks, tools) are HTML buttons around the plot.

import { fill, h, patch, placedAt } from "../dom.js";
import { count, number } from "../format.js";
import { Frame } from "./frame.js";
import { LANE, chipButtons, placed } from "./marks.js";
import { Plot, axis, colour, keyLine, valueLine } from "./plot.js";
import { valueTicks } from "./ticks.js";

/** The axis is made for all points but the first few, whose scores are of a handful of rows; lines end there. */
const [EARLY_SHARE, EARLY_POINTS] = [0.03, 30];
const [WIDE_POINTS, WIDE] = [8, 30];
/** Width and dashes of a line, by its stroke. */
const STROKES = { solid: [1.75], dashed: [1.5, [5, 4]], dotted: [1.25, [1.5, 3.5]] };

/**
 * @typedef {{key: string, name: string, tone: string, points: Array<[number, number|null]>, stroke?: string}} Series
 *     `tone`: a colour, "series-1" to "series-8" or "muted"; a null is a gap; `stroke`: "dashed", or left out
 * @typedef {{series: Series[], references?: Array<{key: string, name: string, y: number|null,
 *     from?: number}>, marks?: import("./marks.js").Mark[], bounds?: [number, number], zero?: boolean, least?: number,
 *     log?: boolean, empty?: string}} Shown
 *     `references`: horizontal lines, from a row on or over all; `bounds`: of the quantity; `zero`: whether 0 belongs
 *     to the axis; `least`: its smallest span; `empty`: what is said without a point
 */
const PLAIN = {
    references: [], marks: [], bounds: [-Infinity, Infinity], zero: false, least: 0, log: false, empty: "No rows yet",
};

export class LineChart extends Frame {
    /** `tools`: elements beside the title; `onMarks` takes the marks of a button that was pressed, and the button. */
    constructor({ height = 240, onMarks = () => {}, ...given }) {
        super({ ...given, numbers: () => this.allNumbers() });
        Object.assign(this, { height, onMarks, hidden: new Set(), shown: PLAIN, lines: [], data: [[]] });
        const happened = { role: "group", "aria-label": `${this.title}: what happened`, hidden: true };
        this.chips = h("div.chart-chips", happened);
        this.plot = new Plot(this.title, { values: (at) => this.values(at) });
        this.markLines = h("div");
        fill(this.body, this.chips, this.plot.element);
    }

    /** @param {Shown} shown */
    update(shown) {
        this.shown = { ...PLAIN, ...shown };
        const { series, references } = this.shown;
        const known = references.filter(({ y }) => Number.isFinite(y));
        const levels = known.map((own) => ({ ...own, tone: "muted", stroke: "dotted" }));
        this.lines = [...series, ...levels];
        const tables = series.map(({ points }) => [points.map(([x]) => x), points.map(([, y]) => y)]);
        const [xs, ...columns] = tables.length ? globalThis.uPlot.join(tables) : [[]];
        this.data = [xs, ...columns, ...levels.map(({ y, from = -Infinity }) => xs.map((x) => (x < from ? null : y)))];
        this.draw();
        this.refreshTable();
    }

    draw() {
        const { log, empty } = this.shown;
        const drawable = (value) => (value === undefined || !log || value > 0 ? value : null);
        const [xs, ...columns] = this.data;
        const looks = this.lines.map(({ name, tone, stroke }) => [name, tone, stroke]);
        this.legend.hidden = this.lines.length < 2;
        patch(this.legend, this.lines.map((own) => this.legendButton(own)));
        this.plot.show({
            form: JSON.stringify([log, looks, [...this.hidden]]),
            options: this.options(log),
            data: [xs, ...columns.map((own) => own.map(drawable))],
            height: this.height,
            said: this.description(),
            empty: xs.length ? "" : empty,
        });
    }

    options(log) {
        const rows = (_, splits) => splits.map((row) => (Number.isInteger(row) ? count(row) : ""));
        const x = { time: false, range: () => this.span() };
        const border = { show: true, stroke: () => colour("line-strong"), width: 1 };
        return {
            scales: { x, y: { distr: log ? 3 : 1, range: () => this.range() } },
            axes: [axis({ size: 28, space: 70, grid: { show: false }, border, values: rows }), axis(valueTicks(log))],
            series: [{}, ...this.lines.map((own) => this.line(own))],
            hooks: { ready: [(plot) => plot.under.append(this.markLines)], draw: [(plot) => this.drawMarks(plot)] },
        };
    }

    line({ key, tone, stroke = "solid" }) {
        const [width, dash] = STROKES[stroke];
        const points = { show: false, filter: (plot, at) => alone(plot.data[at]), size: 5, fill: () => colour(tone) };
        return { show: !this.hidden.has(key), stroke: () => colour(tone), width, dash, points };
    }

    /** From the first to the last row, those of marks among them. */
    span() {
        const [xs] = this.data;
        const all = [xs[0], xs.at(-1), ...this.shown.marks.map(({ x }) => x)].filter(Number.isFinite);
        const [first, last] = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
        return [first, last > first ? last : first + 1];
    }

    /** The values that are drawn, once they have settled, and a little more, within the bounds of the quantity. */
    range() {
        const { bounds, zero, log, least } = this.shown;
        const [first, last] = this.span();
        const early = this.data[0].length < EARLY_POINTS ? first : first + EARLY_SHARE * (last - first);
        const skipped = this.data[0].findIndex((x) => x >= early);
        const column = ({ key, stroke }, at) =>
            this.hidden.has(key) ? [] : this.data[at + 1].slice(stroke === "dotted" ? 0 : skipped);
        const values = this.lines.flatMap(column);
        const known = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
        if (!known.length) return log ? [0.1, 1] : bounds.every(Number.isFinite) ? bounds : [0, 1];
        let [low, high] = [Math.min(...known), Math.max(...known)];
        if (log) return [low / 1.15, high === low ? low * 1.5 : high * 1.15];
        if (zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
        const lacking = Math.max(0, least - (high - low)) / 2;
        const pad = (high - low) * 0.06 + lacking || Math.abs(high) * 0.1 || 1;
        return [Math.max(bounds[0], zero && low === 0 ? 0 : low - pad), Math.min(bounds[1], high + pad)];
    }

    /** Lines through the plot and labels above it, where something happened. */
    drawMarks(plot) {
        const marks = [...this.shown.marks].sort((one, other) => one.x - other.x);
        const left = (x) => plot.valToPos(x, "x");
        const chips = placed(marks, (x) => plot.over.offsetLeft + left(x), plot.width);
        this.chips.hidden = !chips.length;
        placedAt(this.chips, { height: LANE * Math.max(0, ...chips.map(({ lane }) => lane + 1)) });
        patch(this.chips, chipButtons(chips, this.onMarks));
        const line = ({ x, kind }) => h("div.chart-mark", { data: { kind }, style: { left: left(x) } });
        patch(this.markLines, marks.map(line));
    }

    legendButton(line) {
        const { key, name } = line;
        const click = () => {
            if (!this.hidden.delete(key)) this.hidden.add(key);
            this.draw();
        };
        const how = { data: { key }, "aria-pressed": String(!this.hidden.has(key)), on: { click } };
        return h("button.chart-key", how, keyLine(line), name);
    }

    values(at) {
        const shown = this.lines.map((own, line) => [own, this.data[line + 1][at]]);
        const beyond = ({ stroke }, value) => stroke === "dotted" && value === null;
        const told = shown.filter(([own, value]) => !this.hidden.has(own.key) && !beyond(own, value));
        const row = `row ${this.data[0][at].toLocaleString("en")}`;
        return [h("div.muted", row), told.map(([own, value]) => valueLine(own, value))];
    }

    description() {
        const { series, marks, empty } = this.shown;
        const known = series.filter(({ points }) => points.length);
        const ends = known.map(({ name, points }) => `${name} ${number(points.at(-1)[1])}`);
        if (!ends.length) return `${this.title}: ${empty}`;
        const [first, last] = this.span();
        const marked = marks.length ? `; ${marks.length} ${marks.length === 1 ? "mark" : "marks"}` : "";
        return `${this.title}, row ${count(first)} to ${count(last)}; at the end ${ends.join(", ")}${marked}`;
    }

    allNumbers() {
        const rows = this.data[0].map((_, at) => this.data.map((own) => own[at] ?? null));
        return { columns: ["row", ...this.lines.map(({ name }) => name)], rows };
    }
}

/** Whether values span so much that a linear axis would show the largest alone: many times the first line's median. */
export function wide(series) {
    const drawn = series.map(({ points }) => points.map(([, value]) => value).filter((value) => value > 0));
    const first = drawn[0].toSorted((one, other) => one - other);
    return first.length >= WIDE_POINTS && Math.max(...drawn.flat()) > WIDE * first[Math.floor(first.length / 2)];
}

/** Where points stand between gaps, which no line shows. */
function alone(values) {
    const known = [...values.keys()].filter((at) => values[at] !== undefined);
    const there = (at) => Number.isFinite(values[known[at]]);
    return known.filter((_, at) => there(at) && !there(at - 1) && !there(at + 1));
}
