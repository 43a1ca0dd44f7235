// Lines over rows: several series with gaps, a crosshair, marks, references, and a legend that hides and shows. What
// can be pressed (legend, marks, tools) are HTML buttons around the plot.

import { fill, h, patch, placedAt } from "../dom.js";
import { count, number } from "../format.js";
import { Frame } from "./frame.js";
import { LANE, chipButtons, placed } from "./marks.js";
import { Plot, axis, colour, powersOfTen, tickTexts, valueLine } from "./plot.js";

/** The axis is made for all points but the first few, whose scores are of a handful of rows; lines end there. */
const [EARLY_SHARE, EARLY_POINTS] = [0.03, 30];

/**
 * @typedef {{key: string, name: string, tone: string, points: Array<[number, number|null]>, dashed?: boolean}} Series
 *     `tone`: a class of charts.css, "tone-1" to "tone-8" or "tone-base"; a null is a gap
 * @typedef {{series: Series[], references?: Array<{key: string, name: string, y: number|null,
 *     from?: number}>, marks?: import("./marks.js").Mark[], bounds?: [number, number], zero?: boolean, least?: number,
 *     log?: boolean, empty?: string}} Shown
 *     `references`: horizontal lines, from a row on or over all; `bounds`: of the quantity; `zero`: whether 0 belongs
 *     to the axis; `least`: its smallest span; `empty`: what is said without a point
 */

/** A chart of lines. */
export class LineChart {
    /** `tools`: elements beside the title; `onMarks` takes the marks of a button that was pressed, and the button. */
    constructor({ title, note, file, height = 240, tools, onMarks = () => {} }) {
        Object.assign(this, { height, onMarks, hidden: new Set(), shown: { series: [] }, lines: [], data: [[]] });
        this.frame = new Frame({ title, note, file, tools, numbers: () => this.numbers() });
        this.element = this.frame.element;
        this.chips = h("div.chart-chips", { role: "group", "aria-label": `${title}: what happened`, hidden: true });
        this.plot = new Plot(title, { values: (at) => this.values(at) });
        this.markLines = h("div");
        fill(this.frame.body, this.chips, this.plot.element);
    }

    /** @param {Shown} shown */
    update(shown) {
        this.shown = shown;
        const { series, references = [] } = shown;
        const known = references.filter(({ y }) => Number.isFinite(y));
        const levels = known.map((own) => ({ ...own, tone: "tone-base", reference: true }));
        this.lines = [...series, ...levels];
        const tables = series.map(({ points }) => [points.map(([x]) => x), points.map(([, y]) => y)]);
        const [xs, ...columns] = tables.length ? globalThis.uPlot.join(tables) : [[]];
        this.data = [xs, ...columns, ...levels.map(({ y, from = -Infinity }) => xs.map((x) => (x < from ? null : y)))];
        this.drawLegend();
        this.draw();
        this.frame.refreshTable();
    }

    draw() {
        const { log = false, empty = "No rows yet" } = this.shown;
        const drawable = (value) => (value === undefined || !log || value > 0 ? value : null);
        const form = [log, this.lines.map((own) => [own.name, own.tone, own.dashed]), [...this.hidden]];
        this.plot.show({
            form: JSON.stringify(form),
            options: this.options(log),
            data: log ? [this.data[0], ...this.data.slice(1).map((own) => own.map(drawable))] : this.data,
            height: this.height,
            said: this.description(),
            empty: this.data[0].length ? "" : empty,
        });
    }

    options(log) {
        const rows = (_, splits) => splits.map((row) => (Number.isInteger(row) ? count(row) : ""));
        const x = { time: false, range: () => this.span() };
        const border = { show: true, stroke: () => colour("line-strong"), width: 1 };
        return {
            scales: { x, y: { distr: log ? 3 : 1, range: () => this.range() } },
            axes: [
                axis({ size: 28, space: 80, grid: { show: false }, border, values: rows }),
                axis({ size: 46, space: 32, values: tickTexts, filter: log ? powersOfTen : undefined }),
            ],
            series: [{}, ...this.lines.map((own) => this.line(own))],
            hooks: { ready: [(plot) => plot.under.append(this.markLines)], draw: [(plot) => this.drawMarks(plot)] },
        };
    }

    line({ key, tone, dashed, reference }) {
        return {
            show: !this.hidden.has(key),
            stroke: () => colour(tone),
            width: reference ? 1.25 : dashed ? 1.5 : 1.75,
            dash: reference ? [1.5, 3.5] : dashed ? [5, 4] : undefined,
            points: { show: false, filter: (plot, at) => alone(plot.data[at]), size: 5, fill: () => colour(tone) },
        };
    }

    /** From the first to the last row, those of marks among them. */
    span() {
        const xs = this.data[0];
        const all = [xs[0], xs.at(-1), ...(this.shown.marks ?? []).map(({ x }) => x)].filter(Number.isFinite);
        const [first, last] = all.length ? [Math.min(...all), Math.max(...all)] : [0, 1];
        return [first, last > first ? last : first + 1];
    }

    /** The values that are drawn, once they have settled, and a little more, within the bounds of the quantity. */
    range() {
        const { bounds = [-Infinity, Infinity], zero = false, log = false, least = 0 } = this.shown;
        const [first, last] = this.span();
        const early = this.data[0].length < EARLY_POINTS ? first : first + EARLY_SHARE * (last - first);
        const skipped = this.data[0].findIndex((x) => x >= early);
        const column = ({ key, reference }, at) =>
            this.hidden.has(key) ? [] : this.data[at + 1].slice(reference ? 0 : skipped);
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
        const marks = [...(this.shown.marks ?? [])].sort((one, other) => one.x - other.x);
        const left = ({ x }) => plot.valToPos(x, "x");
        const chips = placed(marks, (x) => plot.over.offsetLeft + left({ x }), plot.width);
        this.chips.hidden = !chips.length;
        placedAt(this.chips, { height: LANE * Math.max(0, ...chips.map(({ lane }) => lane + 1)) });
        patch(this.chips, chipButtons(chips, this.onMarks));
        const line = (own) => placedAt(h("div.chart-mark", { data: { kind: own.kind } }), { left: left(own) });
        patch(this.markLines, marks.map(line));
    }

    drawLegend() {
        this.frame.legend.hidden = this.lines.length < 2;
        patch(this.frame.legend, this.lines.map((own) => this.legendButton(own)));
    }

    legendButton({ key, name, tone, dashed, reference }) {
        const stroke = reference ? ".key-reference" : dashed ? ".key-dashed" : "";
        const click = () => {
            if (!this.hidden.delete(key)) this.hidden.add(key);
            this.drawLegend();
            this.draw();
        };
        const how = { type: "button", data: { key }, "aria-pressed": String(!this.hidden.has(key)), on: { click } };
        return h("button.chart-key", how, h(`span.key-line${stroke}.${tone}`, { "aria-hidden": "true" }), name);
    }

    values(at) {
        const shown = this.lines.map((own, line) => [own, this.data[line + 1][at]]);
        const told = shown.filter(([own, value]) => !this.hidden.has(own.key) && !(own.reference && value === null));
        const row = `row ${this.data[0][at].toLocaleString("en")}`;
        return [h("div.crosshair-row", row), told.map(([own, value]) => valueLine(own, value))];
    }

    description() {
        const known = this.shown.series.filter(({ points }) => points.length);
        const ends = known.map(({ name, points }) => `${name} ${number(points.at(-1)[1])}`);
        if (!ends.length) return `${this.frame.title}: ${this.shown.empty ?? "no rows yet"}`;
        const [first, last] = this.span();
        const marks = this.shown.marks?.length ? `; ${this.shown.marks.length} marks` : "";
        return `${this.frame.title}, row ${count(first)} to ${count(last)}; at the end ${ends.join(", ")}${marks}`;
    }

    numbers() {
        const [xs, ...columns] = this.data;
        return {
            columns: ["row", ...this.lines.map(({ name }) => name)],
            rows: xs.map((x, at) => [x, ...columns.map((own) => own[at] ?? null)]),
        };
    }
}

/** Where points stand between gaps, which no line shows. */
function alone(values) {
    const known = [...values.keys()].filter((at) => values[at] !== undefined);
    const there = (at) => Number.isFinite(values[known[at]]);
    return known.filter((_, at) => there(at) && !there(at - 1) && !there(at + 1));
}
