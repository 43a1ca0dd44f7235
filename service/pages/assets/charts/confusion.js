/**
 * A confusion matrix as a real table: rows by label, columns by answer, shaded by the share of the label's rows.
 */

import { h, patch } from "../dom.js";
import { Frame } from "./frame.js";
import { number } from "./scale.js";

const ROOMY_MAX = 8;

/** A table of `confusion` of the metrics. */
export class ConfusionTable {
    /** @param {{note: string, file: string}} given */
    constructor({ note, file }) {
        this.matrix = { labels: [], counts: [] };
        this.frame = new Frame({ title: "Confusion", note, file, numbers: () => this.numbers() });
        this.element = this.frame.element;
    }

    /**
     * Show another matrix.
     *
     * @param {{labels: Array<string|number|boolean>, counts: number[][]}} matrix a list per label that came, with a
     *     number per answer; `counts` may be longer than `labels` by the row and column of all other classes
     */
    update(matrix) {
        this.matrix = matrix ?? { labels: [], counts: [] };
        const { counts } = this.matrix;
        patch(this.frame.body, counts.length ? this.table() : h("p.quiet", "No rows yet"));
        this.frame.refreshTable();
    }

    names() {
        const { labels, counts } = this.matrix;
        return counts.map((_, at) => (at < labels.length ? String(labels[at]) : "other"));
    }

    table() {
        const names = this.names();
        return h("div.scroll-x.confusion-scroll", { tabindex: "0", role: "region", "aria-label": this.frame.title },
            h(`table.confusion${names.length > ROOMY_MAX ? ".confusion-many" : ""}`,
                h("caption.visually-hidden", "Rows by label and answer"),
                h("thead",
                    h("tr",
                        h("td"),
                        h("th.confusion-over", { colspan: names.length, scope: "colgroup" }, "answered"),
                    ),
                    h("tr",
                        h("th.confusion-over", { scope: "col" }, "label"),
                        names.map((name) => h("th", { scope: "col" }, clipped(name))),
                    ),
                ),
                h("tbody", this.matrix.counts.map((row, at) => this.row(names[at], row, at))),
            ),
        );
    }

    row(name, counts, own) {
        const whole = counts.reduce((sum, value) => sum + value, 0);
        return h("tr",
            h("th", { scope: "row" }, clipped(name)),
            counts.map((value, at) => {
                const share = whole ? value / whole : 0;
                const cell = h(`td.heat${at === own ? ".heat-right" : ".heat-wrong"}${value ? "" : ".heat-none"}`,
                    h("span.heat-count", number(Math.round(value))),
                    h("span.heat-share", whole ? share.toFixed(2) : "–"),
                );
                cell.style.setProperty("--share", `${Math.round(100 * share)}%`);
                return cell;
            }),
        );
    }

    numbers() {
        const names = this.names();
        return {
            columns: ["label \\ answer", ...names],
            rows: this.matrix.counts.map((row, at) => [names[at], ...row]),
            json: this.matrix,
        };
    }
}

function clipped(name) {
    return h("span.clip", { title: name }, name);
}
