// A plot by uPlot (vendor/README.md), in the colours that the page has when it is drawn. The picture has a text
// alternative; the crosshair follows the pointer, or the arrow keys.

import { fill, h, placedAt } from "../dom.js";
import { number } from "../format.js";

/** Colours of both themes are resolved by an element that has them. */
const probe = document.body.appendChild(h("span", { hidden: true }));
const AWAY = { left: -10, top: -10 };
const PLAIN = { legend: { show: false }, cursor: { y: false, drag: { x: false, y: false }, points: { size: 7 } } };

/** A colour of onepass.css, by its name: "series-1" to "series-8", "muted". */
export function colour(name) {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
}

/** An axis as all plots have it; `given` is uPlot's. */
export function axis(given) {
    const sans = getComputedStyle(document.body).fontFamily;
    return {
        font: `12px ${sans}`, // in whole pixels: uPlot does not enlarge others for denser screens
        labelFont: `12px ${sans}`,
        stroke: () => colour("muted"),
        grid: { stroke: () => colour("line"), width: 1 },
        ticks: { show: false },
        ...given,
    };
}

/** A piece of a line, before its name. */
export const keyLine = ({ tone, stroke = "solid" }) =>
    h(`span.key-line.key-${stroke}`, { tone, "aria-hidden": "true" });

/** A line of the box of values: its key, name and value. */
export function valueLine(line, value) {
    return h("div.crosshair-value",
        keyLine(line),
        h("span.crosshair-name", line.name),
        h("span.crosshair-number", typeof value === "string" ? value : number(value, 4)),
    );
}

export class Plot {
    /** `values`: what the box says of the point at an index; `square`: a width that is not exceeded, and the height. */
    constructor(title, { values, square }) {
        Object.assign(this, { values, square });
        this.box = h("div.crosshair-box", { hidden: true, "aria-live": "polite" });
        this.empty = h("p.chart-empty.optional");
        const how = { tabindex: "0", role: "group", "aria-label": `${title}: arrow keys show values` };
        const on = { keydown: (event) => this.key(event), blur: () => this.plot?.setCursor(AWAY) };
        this.element = h("div.chart-plot", { ...how, on }, this.box, this.empty);
        new ResizeObserver(() => this.fit()).observe(this.element);
        const theme = { attributes: true, attributeFilter: ["class"] };
        new MutationObserver(() => this.plot?.redraw(false, true)).observe(document.documentElement, theme);
    }

    /** Show data; by a new plot where `form` has changed. `said` stands in place of the picture, `empty` of no data. */
    show({ form, options, data, height, said, empty = "" }) {
        if (form !== this.form) {
            this.plot?.destroy();
            this.plot = null;
        }
        const hooks = { ...options.hooks, setCursor: [(plot) => this.read(plot)] };
        Object.assign(this, { form, options: { ...PLAIN, ...options, hooks }, data, height, said });
        fill(this.empty, empty);
        this.plot?.setData(data);
        this.fit();
    }

    fit() {
        const width = Math.min(this.element.clientWidth, this.square ?? Infinity);
        if (!width || !this.options) return;
        const height = this.square ? width : this.height;
        const whole = () => ({ ...this.options, width, height });
        if (!this.plot) this.plot = new globalThis.uPlot(whole(), this.data, this.element);
        else if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
        const { canvas } = this.plot.ctx;
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", this.said);
    }

    key(event) {
        const xs = this.data[0];
        const last = xs.length - 1;
        const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
        const at = this.plot?.cursor.idx ?? (step > 0 ? -1 : last + 1);
        const to = { Home: 0, End: last }[event.key] ?? Math.min(Math.max(at + step, 0), last);
        if (event.key === "Escape") this.plot?.setCursor(AWAY);
        else if (Number.isNaN(to) || !this.plot) return;
        else this.plot.setCursor({ left: this.plot.valToPos(xs[to], "x"), top: 0 });
        event.preventDefault();
    }

    /** Say the values at the crosshair. */
    read({ cursor: { idx, left }, over, width }) {
        this.box.hidden = left < 0 || idx === null || idx === undefined;
        if (this.box.hidden) return;
        fill(this.box, this.values(idx));
        const line = over.offsetLeft + left;
        const beside = line + 12 + this.box.offsetWidth > width ? line - 12 - this.box.offsetWidth : line + 12;
        placedAt(this.box, { left: Math.max(0, beside) });
    }
}
