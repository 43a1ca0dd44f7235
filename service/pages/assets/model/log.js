/**
 * The latest entries of the model's log.
 */

import { number, scrolled, tableOf } from "../charts.js";
import { h, patch } from "../dom.js";
import { ago } from "../format.js";
import { when } from "./words.js";

const SHOWN_MAX = 6;

/**
 * Fill the part of the log.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function log(model) {
    const place = document.getElementById("log-inside");
    const draw = () => {
        const { log: shown } = model.docs;
        if (shown) patch(place, latest(shown.entries.slice(0, SHOWN_MAX)));
    };
    model.when(["log"], draw);
    setInterval(draw, 10_000);
}

function latest(entries) {
    if (!entries.length) return h("p.quiet.small", "No entry is kept.");
    const how = { numeric: (at) => at % 2 === 0, kind: ".dense.log" };
    const heads = ["Version", "Kind", "Rows", "When"];
    const table = tableOf("Latest entries of the log, newest first", heads, entries.map(row), how);
    return scrolled("Latest entries", table);
}

function row({ version, kind, rows, time, writer }) {
    return h("tr", { title: `Committed by the process ${writer}` },
        h("td.num", number(version)),
        h("td", kind, h("span.sub.mono", writer.slice(0, 8))),
        h("td.num", number(rows)),
        h("td", { title: when(time) }, ago(time)),
    );
}
