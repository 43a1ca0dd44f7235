/**
 * What happened: a mark of a chart, and the drift event behind it.
 */

import { dataTable, number, scrolled } from "../charts.js";
import { fact, fill, h } from "../dom.js";
import { ago } from "../format.js";
import { actionOf, eventSentence, markSentence, rowsText, when } from "./words.js";

const SHOWN_MAX = 20;

/**
 * Show what is behind marks below their chart; pressing the same button again hides it.
 *
 * @param {HTMLElement} place
 * @param {Object[]} marks of the metrics
 * @param {{events: Object[]}|undefined} drift the document of drift events
 * @param {HTMLElement} button that was pressed
 */
export function markDetails(place, marks, drift, button) {
    const rows = button.dataset.rows;
    const open = place.hidden || place.dataset.rows !== rows;
    for (const own of button.parentElement.children) own.setAttribute("aria-expanded", String(open && own === button));
    place.hidden = !open;
    place.dataset.rows = rows;
    if (!open) return;
    const close = h("button.button.quiet.small",
        { type: "button", on: { click: () => ((place.hidden = true), button.focus()) } },
        "Close",
    );
    const left = marks.length - SHOWN_MAX;
    fill(
        place,
        h("div.row", h("h3.grow", marks.length === 1 ? "What happened" : `${marks.length} marks`), close),
        marks.slice(0, SHOWN_MAX).map((mark) => markDetail(mark, drift)),
        left > 0 ? h("p.muted", `${left} more are in the table of drift events.`) : null,
    );
}

function markDetail(mark, drift) {
    const event = mark.kind === "drift" ? eventOf(mark, drift) : null;
    return h("div.event", { data: { kind: mark.kind } },
        h("p", h("strong", `Row ${mark.row.toLocaleString("en")}`), " ", markSentence(mark)),
        event ? [h("p", eventSentence(event)), eventDetail(event)] : null,
    );
}

function eventOf(mark, drift) {
    return drift?.events.find(
        (event) => event.row === mark.row && event.kind === mark.test && event.challenger === null,
    );
}

/**
 * Everything an event tells beside what it found.
 *
 * @param {Object} event of GET /models/NAME/drift
 * @returns {HTMLElement}
 */
export function eventDetail(event) {
    const { before, after } = event.windows;
    const windows = `${rowsText(before)} before, ${rowsText(after)} after`;
    const facts = [
        fact("When", `${when(event.time)} (${ago(event.time)}), version ${event.version}`),
        fact("Compared", `${windows}; threshold ${number(event.epsilon_cut)}`),
        fact("Done", actionOf(event)),
    ];
    return h("div.event-detail",
        h("dl.facts", facts),
        event.features.length ? movedTable(event.features) : null,
        event.alarm_count ? alarmList(event) : null,
    );
}

function movedTable(features) {
    const rows = features.slice(0, SHOWN_MAX).map(({ name, before, after }) => [name, before, after, after - before]);
    const columns = ["feature", "mean before", "mean after", "change"];
    return scrolled("Features that moved", dataTable({ columns, rows }, "Features that moved, most first"));
}

function alarmList(event) {
    const rest = event.alarm_count - event.alarms.length;
    const rows = event.alarms.map((own) => [
        own.row,
        own.kind,
        own.class === null ? null : String(own.class),
        own.features[0]?.name ?? null,
    ]);
    const columns = ["row", "test", "class", "feature that moved most"];
    return h("details",
        h("summary",
            `${event.alarm_count} later ${event.alarm_count === 1 ? "alarm" : "alarms"} of the same episode`,
        ),
        scrolled("Later alarms", dataTable({ columns, rows }, "Later alarms")),
        rest > 0 ? h("p.muted.small", `${rest} more are not kept.`) : null,
    );
}
