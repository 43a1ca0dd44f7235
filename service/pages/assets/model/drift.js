// Drift: one line for each drift, whoever of the model and its challengers found it, with what was found below it; and
// what is behind the marks of a chart.

import { Frame, more, numbersAt, scrolled, tableOf } from "../charts/frame.js";
import { fact, fill, h } from "../dom.js";
import { ago, number, rowsText, when } from "../format.js";
import { actionOf, eventSentence, markSentence } from "./words.js";

const CONTESTED = " The model and each challenger test separately; a line shows the model’s alarm, if any.";
const FOUND = ["row", "time", "kind", "class", "action", "challenger", "windows.before", "windows.after"];
const COLUMNS = [...FOUND, "before", "after", "alarm_count"];
const SHOWN_MAX = 10;
const DETAILS_MAX = 20;
const EPISODE_ROWS = 1000; // as the service has it where a watch does not say

export function drift(model, place) {
    const order = (one, other) => other.version - one.version || other.row - one.row;
    const newest = () => [...(model.docs.drift?.events ?? [])].sort(order);
    const numbers = () => numbersAt(newest(), COLUMNS);
    const frame = new Frame({ title: "Drift events", plain: true, file: `${model.name}-drift`, numbers });
    fill(place, frame.element);
    model.redrawn("drift", ({ events }) => {
        const { watch } = model.docs.model.config;
        const found = episodes(events, watch?.episode_rows);
        const lines = found.slice(0, SHOWN_MAX).map(episodeLine);
        const none = watch ? "No drift detected." : "Drift detection is off: the configuration has no watch.";
        const contested = events.some(({ challenger }) => challenger !== null) ? CONTESTED : "";
        frame.note(events.length ? `Newest first.${contested}` : "");
        const list = () => h("ol.events", { "aria-label": "Drift events, newest first" }, lines);
        frame.show(
            events.length ? list() : h("p.muted", none),
            more(found.length - SHOWN_MAX, "older, in the table and the CSV."),
        );
    });
}

const textOf = (label) => (label === null ? null : String(label));
const rowText = ({ row }) => row.toLocaleString("en");

/**
 * Events by drift, the newest first: at most one of each learner, all within the rows of an episode, as alarms of one
 * learner are joined.
 */
export function episodes(events, rows = EPISODE_ROWS) {
    const found = [];
    for (const event of [...events].sort((one, other) => one.row - other.row || one.version - other.version)) {
        const alone = (episode) => episode.every(({ challenger }) => challenger !== event.challenger);
        const known = found.findLast((episode) => alone(episode) && event.row - episode[0].row < rows);
        if (known) known.push(event);
        else found.push([event]);
    }
    return found.reverse();
}

/** The event that stands for a drift: the model's own, else the first one. */
const leading = (episode) => episode.find(({ challenger }) => challenger === null) ?? episode[0];
const finder = ({ challenger }) => (challenger === null ? "the model" : `challenger ${challenger}`);

/** Which learners detected a drift: "the model, dfop and auto (row 1,171)"; rows that differ are named. */
export function finders(episode) {
    const lead = leading(episode);
    const said = (event) => (event.row === lead.row ? finder(event) : `${finder(event)} (row ${rowText(event)})`);
    const names = [lead, ...episode.filter((event) => event !== lead)].map(said);
    return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0];
}

function episodeLine(episode) {
    const lead = leading(episode);
    const others = episode.filter((event) => event !== lead);
    const by = others.length || lead.challenger !== null ? `Detected by ${finders(episode)}` : null;
    return h("li", { data: { key: lead.id } },
        h("details.event-line",
            h("summary",
                h("span.event-row", `Row ${rowText(lead)}`),
                h("span.event-text",
                    eventSentence(lead),
                    " ",
                    lead.action !== "report" && h("span.badge.warn", lead.action),
                    by && h("span.sub.event-by", by),
                ),
                h("span.muted.event-time", { title: when(lead.time) }, ago(lead.time)),
            ),
            eventDetail(lead),
            others.map(otherDetail),
        ),
    );
}

/** What another learner has found of the same drift. */
function otherDetail(event) {
    const said = `Detected by ${finder(event)} at row ${rowText(event)}: ${eventSentence(event)}`;
    return h("details.folded", { data: { key: event.id } }, h("summary", said), eventDetail(event));
}

/** Everything an event tells beside what it found. */
function eventDetail(event) {
    const windows = `${rowsText(event.windows.before)} before, ${rowsText(event.windows.after)} after`;
    return h("div.event-detail",
        h("dl.facts",
            fact("When", `${when(event.time)} (${ago(event.time)}), version ${event.version}`),
            fact("Compared", `${windows}; threshold ${number(event.epsilon_cut)}`),
            fact("Done", actionOf(event)),
        ),
        event.features.length ? movedTable(event.features) : null,
        event.alarm_count ? alarmList(event) : null,
    );
}

function movedTable(features) {
    const cells = ({ name, before, after }) => [name, before, after, after - before];
    const rows = features.slice(0, DETAILS_MAX).map(cells);
    const heads = ["feature", "mean before", "mean after", "change"];
    return scrolled("Features that moved", tableOf("Features that moved, largest change first", heads, rows));
}

function alarmList({ alarm_count: count, alarms }) {
    const cells = (own) => [own.row, own.kind, textOf(own.class), own.features[0]?.name ?? null];
    const heads = ["row", "test", "class", "feature that moved most"];
    const rest = count - alarms.length;
    return h("details",
        h("summary", `${count} later ${count === 1 ? "alarm" : "alarms"} of the same episode`),
        scrolled("Later alarms", tableOf("Later alarms", heads, alarms.map(cells))),
        rest > 0 ? h("p.muted.small", `${rest} more are not kept.`) : null,
    );
}

/** Show what is behind marks below their chart; pressing the same button again hides it. */
export function markDetails(place, marks, found, button) {
    const { rows } = button.dataset;
    const open = place.hidden || place.dataset.rows !== rows;
    for (const own of button.parentElement.children) own.setAttribute("aria-expanded", String(open && own === button));
    place.hidden = !open;
    place.dataset.rows = rows;
    if (!open) return;
    const click = () => {
        place.hidden = true;
        button.setAttribute("aria-expanded", "false");
        button.focus();
    };
    const left = marks.length - DETAILS_MAX;
    fill(
        place,
        h("div.row",
            h("h3.grow", marks.length === 1 ? "What happened" : `${marks.length} marks`),
            h("button.button.quiet.small", { type: "button", on: { click } }, "Close"),
        ),
        marks.slice(0, DETAILS_MAX).map((mark) => markDetail(mark, found)),
        left > 0 ? h("p.muted", `${left} more are in the table of drift events.`) : null,
    );
}

function markDetail(mark, found) {
    const own = ({ row, kind, challenger }) => row === mark.row && kind === mark.test && challenger === null;
    const event = mark.kind === "drift" ? found?.events.find(own) : null;
    return h("div.event", { data: { kind: mark.kind } },
        h("p", h("strong", `Row ${rowText(mark)}`), " ", markSentence(mark)),
        event ? [h("p", eventSentence(event)), eventDetail(event)] : null,
    );
}
