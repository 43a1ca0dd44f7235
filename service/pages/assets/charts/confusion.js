// A confusion matrix as a real table: rows by label, columns by answer, shaded by the share of the label's rows.

import { h, placedAt } from "../dom.js";
import { number } from "../format.js";
import { named, scrolled, tableOf } from "./frame.js";

const ROOMY_MAX = 8;
const CORNER = "label \\ answer";

/** The matrix: a list per label, with a number per answer; the last one may be of all other classes. */
export function confusionTable({ labels, counts }) {
    const names = namesOf(labels, counts);
    const kind = `.confusion${names.length > ROOMY_MAX ? ".confusion-many" : ""}`;
    const rows = counts.map((row, at) => rowOf(names[at], row, at));
    return scrolled("Confusion", tableOf("Rows by label and prediction", [CORNER, ...names], rows, kind), ".tall");
}

export function confusionNumbers({ labels, counts }) {
    const names = namesOf(labels, counts);
    const rows = counts.map((row, at) => [names[at], ...row]);
    return { columns: [CORNER, ...names], rows, json: { labels, counts } };
}

const namesOf = (labels, counts) => counts.map((_, at) => (at < labels.length ? String(labels[at]) : "other"));

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
    return [named(name), ...counts.map(cell)];
}
