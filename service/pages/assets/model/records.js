// What is kept of a model: tracked predictions that wait for labels, snapshots, and the latest entries of its log.

import { more, scrolledTable } from "../charts/frame.js";
import { fact, fill, h, patch } from "../dom.js";
import { ago, bytes, clipped, number, rowsText, when } from "../format.js";
import { actionButton, confirmed, needing, sayer } from "./actions.js";

const PENDING_SHOWN = 5;

export function pending(model, place) {
    model.redrawn("pending", ({ pending: all, waiting, expired }) => {
        const [first] = all.map(({ expires }) => expires).sort();
        const facts = [
            fact("Waiting", number(waiting)),
            fact("Oldest expires", first ? ago(first, true) : "–", first && when(first)),
            fact("Expired unlabelled", number(expired)),
        ];
        patch(place, h("dl.stats.small-stats", facts), pendingList(all, waiting));
    });
}

function pendingList(all, waiting) {
    if (!all.length) return h("p.muted.small", 'Predictions requested with "track": true wait here for their labels.');
    const said = (value) => (typeof value === "number" ? number(value) : clipped(value ?? "–", 18));
    const item = ({ prediction_id: id, prediction }) =>
        h("li", h("code.clip", { title: id }, id), h("span.num", said(prediction)));
    return [
        h("ul.plain-list", { "aria-label": "Some of them" }, all.slice(0, PENDING_SHOWN).map(item)),
        more(waiting - PENDING_SHOWN, "more"),
    ];
}

export function snapshots(model, place) {
    const said = sayer();
    const list = h("div");
    const take = () => model.change("snapshots", { method: "POST" }, "snapshots");
    fill(place, list, said, needing("admin", actionButton("Take a snapshot", take, { kind: ".small", said })));
    model.redrawn("snapshots", ({ snapshots: kept }) => patch(list, snapshotList(model, kept, said)));
}

function snapshotList(model, kept, said) {
    if (!kept.length) return h("p.muted.small", "None yet; they are taken automatically as the log grows.");
    const item = (own) => {
        const facts = `${rowsText(own.rows)}, ${bytes(own.bytes)}, ${ago(own.time)}`;
        return h("li", { data: { key: own.version } },
            h("span.grow", `Version ${number(own.version)}`, h("span.sub", { title: when(own.time) }, facts)),
            restoreButton(model, own, said),
        );
    };
    return h("ul.plain-list", { "aria-label": "Snapshots, newest first" }, kept.map(item));
}

function restoreButton(model, { version, rows }, said) {
    const title = `Restore version ${version}`;
    const text =
        `The model gets the state, rows, metrics, configuration and challengers it had at version ${version} ` +
        `(${rowsText(rows)}). It loses what it has learned since; the version continues.`;
    const restore = async () => {
        if (!(await confirmed({ title: `${title}?`, text, action: "Restore" }))) return;
        const how = { method: "POST", body: { version } };
        await model.change("restore", how, "model", "features", "challengers", "snapshots");
    };
    return actionButton("Restore", restore, { kind: ".small.needs-admin", said, name: title });
}

export function log(model, place) {
    model.redrawn("log", ({ entries }) => {
        const cells = ({ version, kind, rows, time, writer }) => [
            version,
            h("td", { title: `Committed by the process ${writer}` }, kind, h("span.sub.mono", writer.slice(0, 8))),
            rows,
            h("td.unbroken", { title: when(time) }, ago(time)),
        ];
        const heads = ["Version", "Kind", "Rows", "When"];
        const table = (rows) => scrolledTable("Latest entries of the log, newest first", heads, rows, ".dense.log");
        patch(place, entries.length ? table(entries.map(cells)) : h("p.muted.small", "No entries are kept."));
    });
}
