/**
 * Drift events: one line for each, what it found below it.
 */

import { Frame } from "../charts.js";
import { fill, h, patch } from "../dom.js";
import { ago } from "../format.js";
import { eventDetail } from "./events.js";
import { eventSentence, when } from "./words.js";

const SHOWN_MAX = 50;
const REDRAWN_MS = 30_000; // times are told as "5 min ago"

/**
 * Fill the part of drift events.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function drift(model) {
    const place = document.getElementById("drift-inside");
    const newest = () =>
        [...(model.docs.drift?.events ?? [])].sort((one, other) => other.version - one.version || other.row - one.row);
    const frame = new Frame({
        title: "Drift events",
        plain: true,
        file: `${model.name}-drift`,
        numbers: () => numbersOf(newest()),
    });
    fill(place, frame.element);
    const list = h("ol.events", { "aria-label": "Drift events, newest first" });
    const none = h("p.quiet");
    const more = h("p.quiet.small");
    let written = null;
    fill(frame.body, list, none, more);
    const draw = () => {
        const events = newest();
        const open = new Set([...list.querySelectorAll("details[open]")].map((own) => own.dataset.id));
        const shown = events.slice(0, SHOWN_MAX);
        patch(
            list,
            shown.map((event) => eventLine(event, open.has(event.id))),
        );
        frame.note(events.length ? "One event for each episode, by its first alarm; newest first." : "");
        list.hidden = !events.length;
        none.textContent = events.length ? "" : nothing(model.docs.model);
        const left = events.length - shown.length;
        more.textContent = left > 0 ? `${left} older events are in the table and the CSV.` : "";
        frame.refreshTable();
    };
    model.when(["drift", "model"], ({ drift: found, model: own }) => {
        const state = [found, own.config.watch];
        if (JSON.stringify(state) === written) return;
        written = JSON.stringify(state);
        draw();
    });
    setInterval(() => model.docs.drift && model.docs.model && draw(), REDRAWN_MS);
}

function nothing(shown) {
    return shown.config.watch ? "No drift has been found." : "Drift is not watched: the configuration's watch is off.";
}

function eventLine(event, open) {
    const challenger = event.challenger === null ? null : h("span.badge", {}, `challenger ${event.challenger}`);
    const action = event.action === "report" ? null : h("span.badge.warn", {}, event.action);
    return h(
        "li",
        { data: { key: event.id } },
        h(
            "details.event-line",
            { open, data: { id: event.id } },
            h(
                "summary",
                {},
                h("span.event-row", {}, `Row ${event.row.toLocaleString("en")}`),
                h("span.event-text", {}, eventSentence(event), " ", challenger, action),
                h("span.muted.event-time", { title: when(event.time) }, ago(event.time)),
            ),
            eventDetail(event),
        ),
    );
}

function numbersOf(events) {
    return {
        columns: [
            "row",
            "time",
            "test",
            "class",
            "action",
            "challenger",
            "rows before",
            "rows after",
            "before",
            "after",
            "later alarms",
        ],
        rows: events.map((own) => [
            own.row,
            own.time,
            own.kind,
            own.class === null ? null : String(own.class),
            own.action,
            own.challenger,
            own.windows.before,
            own.windows.after,
            own.before,
            own.after,
            own.alarm_count,
        ]),
        json: events,
    };
}
