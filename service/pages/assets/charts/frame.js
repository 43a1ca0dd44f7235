// What stands around every chart: its title, the legend, and the numbers behind it as a table, CSV and JSON.

import { fill, h, patch } from "../dom.js";
import { number } from "../format.js";

/** A figure with a title, a place for the chart and its numbers one click away. */
export class Frame {
    /**
     * @param {{title: string, note?: string, file: string, plain?: boolean, tools?: Node[],
     *     numbers: function(): {columns: string[], rows: Array[], json?: *}}} given
     *     `note`: what is shown, in a sentence; `file`: name of downloads, without its end; `plain`: the title is for
     *     screen readers only, as one stands above the chart; `tools`: beside the title
     */
    constructor({ title, note = "", file, numbers, plain = false, tools = [] }) {
        Object.assign(this, { title, file, numbers });
        this.noteText = h("p.chart-note.optional", note);
        this.body = h("div");
        this.legend = h("div.chart-legend", { hidden: true });
        const region = { hidden: true, tabindex: "0", role: "region", "aria-label": `${title}, as a table` };
        this.table = h("div.chart-table", region);
        this.element = h("figure.chart",
            h(`figcaption.chart-head${tools.length ? ".chart-head-tools" : ""}`,
                h(`h3.${plain ? "visually-hidden" : "chart-title"}`, title),
                h("div.chart-actions", h("div.chart-tools.optional", tools), this.downloads()),
                this.noteText,
            ),
            this.legend,
            this.body,
            this.table,
        );
    }

    downloads() {
        const tool = (label, how, click) => h("button.chart-tool", { ...how, on: { click } }, label);
        const download = (kind, type, write) => {
            const file = `${this.file}.${kind.toLowerCase()}`;
            const save = () => saveAs(file, new Blob([write(this.numbers())], { type }));
            return tool(kind, { "aria-label": `${this.title}: numbers as ${kind}` }, save);
        };
        const toggle = () => {
            this.table.hidden = !this.table.hidden;
            table.ariaExpanded = String(!this.table.hidden);
            this.refreshTable();
        };
        const table = tool("Table", { "aria-expanded": "false" }, toggle);
        return h("div.chart-downloads", { role: "group", "aria-label": `${this.title}: numbers` },
            table,
            download("CSV", "text/csv", csv),
            download("JSON", "application/json", json),
        );
    }

    note(note) {
        fill(this.noteText, note);
    }

    /** Show something else in place of the chart; elements that are alike stay. */
    show(...children) {
        patch(this.body, children);
        this.refreshTable();
    }

    refreshTable() {
        if (this.table.hidden) return;
        const { columns, rows } = this.numbers();
        patch(this.table, tableOf(this.title, columns, rows, ".dense"));
    }
}

/** A table: a caption for screen readers, heads of columns, and rows, each made already or a list of its cells. */
function tableOf(caption, heads, rows, kind = "") {
    const ofNumbers = (cell) => typeof cell === "number" || Boolean(cell?.classList?.contains("num"));
    const numeric = heads.map((_, at) => rows.some((row) => ofNumbers((row.cells ?? row)[at])));
    const cell = (own, at) => (own instanceof Node ? own : h(numeric[at] ? "td.num" : "td", shown(own)));
    const head = (name, at) => (name ? h(numeric[at] ? "th.num" : "th", { scope: "col" }, name) : h("td"));
    return h(`table.data${kind}`,
        h("caption.visually-hidden", caption),
        h("thead", h("tr", heads.map(head))),
        h("tbody", rows.map((row) => (row instanceof Node ? row : h("tr", row.map(cell))))),
    );
}

/** A table in a box in which it scrolls where it is wide: a region with a name, which can be reached by keyboard. */
export function scrolledTable(caption, heads, rows, kind = "", box = "") {
    const how = { tabindex: "0", role: "region", "aria-label": caption };
    return h(`div.scroll${box}`, how, tableOf(caption, heads, rows, kind));
}

/** The head of a row: a name that is cut where it is long, and whole as its title. */
export const named = (name) => h("th", { scope: "row" }, h("span.clip.clip-wide", { title: name }, name));

/** What is left out of a list, where something is. */
export const more = (left, what) => (left > 0 ? h("p.muted.small", `${number(left)} ${what}`) : null);

/** The numbers of a list of objects: what each has at some paths, "difference.low", which name the columns. */
export function numbersAt(list, paths) {
    const read = (own, path) => path.split(".").reduce((one, key) => one?.[key], own) ?? null;
    const columns = paths.map((path) => path.replaceAll(/[._]/g, " "));
    return { columns, rows: list.map((own) => paths.map((path) => read(own, path))), json: list };
}

function shown(value) {
    if (value === null || value === undefined) return "–";
    return typeof value === "number" ? number(value, 4) : String(value);
}

/** CSV by RFC 4180, with a header. Text that a spreadsheet would take for a formula gets an apostrophe in front. */
function csv({ columns, rows }) {
    const cell = (value) => {
        if (typeof value !== "string") return String(value ?? "");
        const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
        return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    return [columns, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** A record for each row, unless the numbers say what their JSON is. */
function json({ columns, rows, json: own }) {
    const records = own ?? rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at]])));
    return `${JSON.stringify(records, null, 1)}\n`;
}

/** Let the browser save a file. */
export function saveAs(name, blob) {
    const link = h("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
