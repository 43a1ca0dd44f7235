// A confusion matrix as a real table: rows by label, columns by answer, shaded by the share of the label's rows.

import { number } from "../format.js";
import { h, placedAt } from "../dom.js";
import { Frame } from "./frame.js";

const ROOMY_MAX = 8;

/** A table of `confusion` of the metrics, with `labels` and `counts`. */
export class ConfusionTable {
    constructor({ note, file }) {
        this.frame = new Frame({ title: "Confusion", note, file, numbers: () => this.numbers() });
        this.element = this.frame.element;
    }

    /** Show another matrix: a list per label, with a number per answer; the last one may be of all other classes. */
    update(matrix = { labels: [], counts: [] }) {
        const { labels, counts } = matrix;
        this.matrix = matrix;
        this.names = counts.map((_, at) => (at < labels.length ? String(labels[at]) : "other"));
        this.frame.show(counts.length ? this.table() : h("p.muted", "No rows yet"));
    }

    table() {
        const { names } = this;
        const region = { tabindex: "0", role: "region", "aria-label": this.frame.title };
        const over = { colspan: names.length, scope: "colgroup" };
        const head = (name) => h("th", { scope: "col" }, clip(name));
        return h("div.scroll-x.confusion-scroll", region,
            h(`table.confusion${names.length > ROOMY_MAX ? ".confusion-many" : ""}`,
                h("caption.visually-hidden", "Rows by label and answer"),
                h("thead",
                    h("tr", h("td"), h("th.confusion-over", over, "answered")),
                    h("tr", h("th.confusion-over", { scope: "col" }, "label"), names.map(head)),
                ),
                h("tbody", this.matrix.counts.map((row, at) => rowOf(names[at], row, at))),
            ),
        );
    }

    numbers() {
        const rows = this.matrix.counts.map((row, at) => [this.names[at], ...row]);
        return { columns: ["label \\ answer", ...this.names], rows, json: this.matrix };
    }
}

function rowOf(name, counts, own) {
    const all = counts.reduce((sum, value) => sum + value, 0);
    const cell = (value, at) => {
        const share = all ? value / all : 0;
        const made = h(`td.heat${at === own ? ".heat-right" : ".heat-wrong"}${value ? "" : ".heat-none"}`,
            h("span.heat-count", number(Math.round(value))),
            h("span.heat-share", all ? share.toFixed(2) : "–"),
        );
        return placedAt(made, { "--share": `${Math.round(100 * share)}%` });
    };
    return h("tr", h("th", { scope: "row" }, clip(name)), counts.map(cell));
}

function clip(name) {
    return h("span.clip", { title: name }, name);
}
