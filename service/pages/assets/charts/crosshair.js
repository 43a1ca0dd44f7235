/**
 * The crosshair of a line chart: the values at the row under the pointer, or at the one that arrow keys have chosen.
 */

import { fill, h } from "../dom.js";
import { number } from "./scale.js";

/** The layer above a plot that shows values. */
export class Crosshair {
    /** @param {import("./line.js").LineChart} chart whose scales and series it reads */
    constructor(chart) {
        this.chart = chart;
        this.series = [];
        this.rows = [];
        this.at = null;
        this.line = h("div.crosshair-line", { hidden: true });
        this.box = h("div.crosshair-box", { hidden: true, "aria-live": "polite" });
        this.element = h("div.crosshair",
            { tabindex: "0", role: "group", "aria-label": `${chart.frame.title}: arrow keys show values` },
            this.line,
            this.box,
        );
        const { element } = this;
        element.addEventListener("pointermove", (event) => this.show(this.nearest(event.offsetX)));
        element.addEventListener("pointerdown", (event) => this.show(this.nearest(event.offsetX)));
        element.addEventListener("pointerleave", () => this.show(null));
        element.addEventListener("blur", () => this.show(null));
        element.addEventListener("keydown", (event) => this.key(event));
    }

    /** Other series: the rows at which there are values. */
    refresh(series) {
        this.series = series;
        this.rows = [...new Set(series.flatMap(({ points }) => points.map(([row]) => row)))].sort(
            (one, other) => one - other,
        );
        if (this.at !== null) this.show(Math.min(this.at, this.rows.length - 1));
    }

    key(event) {
        const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
        const last = this.rows.length - 1;
        if (event.key === "Escape") this.show(null);
        else if (event.key === "Home") this.show(0);
        else if (event.key === "End") this.show(last);
        else if (step) this.show(Math.min(Math.max((this.at ?? (step > 0 ? -1 : last + 1)) + step, 0), last));
        else return;
        event.preventDefault();
    }

    nearest(pixel) {
        const { rows } = this;
        const { x } = this.chart;
        if (!rows.length) return null;
        let low = 0;
        let high = rows.length - 1;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (x(rows[middle]) < pixel) low = middle + 1;
            else high = middle;
        }
        return low > 0 && pixel - x(rows[low - 1]) < x(rows[low]) - pixel ? low - 1 : low;
    }

    show(at) {
        this.at = at !== null && at >= 0 ? at : null;
        const hidden = this.at === null || !this.rows.length;
        this.line.hidden = this.box.hidden = hidden;
        if (hidden) return;
        const row = this.rows[this.at];
        const left = this.chart.x(row);
        this.line.style.left = `${left}px`;
        fill(this.box, h("div.crosshair-row", `row ${row.toLocaleString("en")}`), this.values(row));
        const width = this.box.offsetWidth;
        const beside = left + 12 + width > this.chart.width ? left - 12 - width : left + 12;
        this.box.style.left = `${Math.max(0, beside)}px`;
    }

    values(row) {
        const found = this.series.map((own) => ({ ...own, value: own.points.find(([at]) => at === row)?.[1] ?? null }));
        const levels = this.chart
            .references()
            .filter(({ from = row }) => row >= from)
            .map(({ name, y }) => ({ name, tone: "tone-base", value: y, reference: true }));
        return [...found, ...levels].map(({ name, tone, dashed, reference, value }) =>
            h("div.crosshair-value",
                h(`span.key-line.${tone}${reference ? ".key-reference" : dashed ? ".key-dashed" : ""}`),
                h("span.crosshair-name", name),
                h("span.crosshair-number", number(value, 4)),
            ),
        );
    }
}
