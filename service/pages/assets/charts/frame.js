/**
 * What stands around every chart: its title, the legend, and the numbers behind it as a table, CSV and JSON.
 */

import { h, patch } from "../dom.js";
import { csv, save } from "./download.js";
import { number } from "./scale.js";

/**
 * The numbers behind a chart.
 *
 * @typedef {{columns: string[], rows: Array<Array<string|number|boolean|null>>, json?: *}} Numbers
 */

/** A figure with a title, a place for the chart and its numbers one click away. */
export class Frame {
    /**
     * @param {{title: string, note?: string, file: string, numbers: function(): Numbers, plain?: boolean,
     *     tools?: boolean}} given
     *     `note`: what is shown, in a sentence; `file`: name of downloads, without its end;
     *     `plain`: the title is for screen readers only, as one stands above the chart;
     *     `tools`: there will be some beside the title
     */
    constructor({ title, note = "", file, numbers, plain = false, tools = false }) {
        this.numbers = numbers;
        this.file = file;
        this.title = title;
        this.noteText = h("p.chart-note", { hidden: !note }, note);
        this.tools = h("div.chart-tools");
        this.body = h("div.chart-body");
        this.legend = h("div.chart-legend", { hidden: true });
        this.table = h("div.chart-table", {
            hidden: true,
            tabindex: "0",
            role: "region",
            "aria-label": `${title}, as a table`,
        });
        this.tableButton = h("button.chart-tool",
            { type: "button", "aria-expanded": "false", on: { click: () => this.toggleTable() } },
            "Table",
        );
        this.element = h("figure.chart",
            h(`figcaption.chart-head${tools ? ".chart-head-tools" : ""}`,
                h(`h3.${plain ? "visually-hidden" : "chart-title"}`, title),
                h("div.chart-actions", this.tools, this.downloads()),
                this.noteText,
            ),
            this.legend,
            this.body,
            this.table,
        );
    }

    downloads() {
        const as = (name, label, write) =>
            h("button.chart-tool",
                { type: "button", "aria-label": `${this.title}: numbers as ${name}`, on: { click: write } },
                label,
            );
        return h("div.chart-downloads", { role: "group", "aria-label": `${this.title}: numbers` },
            this.tableButton,
            as("CSV", "CSV", () => save(`${this.file}.csv`, csv(this.numbers()), "text/csv")),
            as("JSON", "JSON", () => save(`${this.file}.json`, this.json(), "application/json")),
        );
    }

    json() {
        const { columns, rows, json } = this.numbers();
        const records = json ?? rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at]])));
        return `${JSON.stringify(records, null, 1)}\n`;
    }

    /**
     * Another sentence below the title.
     *
     * @param {string} note
     */
    note(note) {
        if (this.noteText.textContent !== note) this.noteText.textContent = note;
        this.noteText.hidden = !note;
    }

    toggleTable() {
        this.table.hidden = !this.table.hidden;
        this.tableButton.setAttribute("aria-expanded", String(!this.table.hidden));
        this.refreshTable();
    }

    /** Write the table again, where it is open. */
    refreshTable() {
        if (!this.table.hidden) patch(this.table, dataTable(this.numbers(), this.title));
    }
}

/**
 * A table of numbers and texts.
 *
 * @param {Numbers} numbers
 * @param {string} caption for those who do not see it
 * @returns {HTMLTableElement}
 */
export function dataTable({ columns, rows }, caption) {
    const numeric = columns.map((_, at) => rows.some((row) => typeof row[at] === "number"));
    const cell = (value, at) => h(numeric[at] ? "td.num" : "td", shown(value));
    const written = rows.map((row) => h("tr", row.map(cell)));
    return tableOf(caption, columns, written, { numeric: (at) => numeric[at] });
}

/**
 * A table of rows that are made already.
 *
 * @param {string} caption for those who do not see it
 * @param {string[]} heads of the columns; an empty one has no name
 * @param {HTMLElement[]} rows
 * @param {{numeric?: function(number): boolean, kind?: string}} [given] `numeric`: whether the column at a place holds
 *     numbers; `kind`: classes behind dots
 * @returns {HTMLTableElement}
 */
export function tableOf(caption, heads, rows, { numeric = () => false, kind = "" } = {}) {
    const head = (name, at) => (name ? h(numeric(at) ? "th.num" : "th", { scope: "col" }, name) : h("td"));
    return h(`table.data${kind}`,
        h("caption.visually-hidden", caption),
        h("thead", h("tr", heads.map(head))),
        h("tbody", rows),
    );
}

/** A box in which a wide table scrolls: a region with a name, which can be reached by keyboard. */
export function scrolled(label, table, kind = "") {
    return h(`div.scroll${kind}`, { tabindex: "0", role: "region", "aria-label": label }, table);
}

/**
 * The numbers of a list of objects.
 *
 * @param {Object[]} list
 * @param {Object<string, function(Object): *>} columns how each is read, by name
 * @returns {Numbers}
 */
export function numbersBy(list, columns) {
    const rows = list.map((own) => Object.values(columns).map((read) => read(own) ?? null));
    return { columns: Object.keys(columns), rows, json: list };
}

function shown(value) {
    if (value === null || value === undefined) return "–";
    return typeof value === "number" ? number(value, 4) : String(value);
}
