/**
 * The latest entries of the model's log.
 */

import { number } from "../charts.js";
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
        if (shown) patch(place, table(shown.entries.slice(0, SHOWN_MAX)));
    };
    model.when(["log"], draw);
    setInterval(draw, 10_000);
}

function table(entries) {
    if (!entries.length) return h("p.quiet.small", {}, "No entry is kept.");
    const heads = ["Version", "Kind", "Rows", "When"];
    return h(
        "div.scroll",
        { tabindex: "0", role: "region", "aria-label": "Latest entries" },
        h(
            "table.data.dense.log",
            {},
            h("caption.visually-hidden", {}, "Latest entries of the log, newest first"),
            h(
                "thead",
                {},
                h(
                    "tr",
                    {},
                    heads.map((name, at) => h(at % 2 ? "th" : "th.num", { scope: "col" }, name)),
                ),
            ),
            h("tbody", {}, entries.map(row)),
        ),
    );
}

function row({ version, kind, rows, time, writer }) {
    return h(
        "tr",
        { title: `Committed by the process ${writer}` },
        h("td.num", {}, number(version)),
        h("td", {}, kind, h("span.sub.mono", {}, writer.slice(0, 8))),
        h("td.num", {}, number(rows)),
        h("td", { title: when(time) }, ago(time)),
    );
}
