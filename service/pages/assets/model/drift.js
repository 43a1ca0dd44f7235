// Drift: one line for each drift, whoever of the model and its challengers found it, with what was found below it; and
// what is behind the marks of a chart.

import { Frame, more, numbersAt, scrolledTable } from "../charts/frame.js";
import { fact, fill, folded, h } from "../dom.js";
import { ago, labelText, number, rowsText, when, whole } from "../format.js";
import { actionOf, eventSentence, markSentence } from "./words.js";

const CONTESTED = " The model and each challenger test separately; a line shows the model’s alarm, if any.";
const FOUND = ["row", "time", "kind", "class", "action", "challenger", "windows.before", "windows.after"];
const COLUMNS = [...FOUND, "before", "after", "alarm_count"];
const SHOWN_MAX = 10;
const DETAILS_MAX = 20;
const EPISODE_ROWS = 1000; // as the service has it where a watch does not say

export function drift(model, place) {
    const order = (one, other) => other.version - one.version || other.row - one.row;
    const numbers = () => numbersAt((model.docs.drift?.events ?? []).toSorted(order), COLUMNS);
    const frame = new Frame({ title: "Drift events", plain: true, file: `${model.name}-drift`, numbers });
    fill(place, frame.element);
    model.redrawn("drift", ({ events }) => {
        const { watch } = model.docs.model.config;
        const found = episodes(events, watch?.episode_rows);
        const lines = found.slice(0, SHOWN_MAX).map(episodeLine);
        const none = watch ? "No drift detected." : "Drift detection is off: the configuration has no watch.";
        const contested = events.some(({ challenger }) => challenger !== null) ? CONTESTED : "";
        frame.note(events.length ? `Newest first.${contested}` : "");
        frame.show(
            lines.length ? h("ol.events", { "aria-label": "Drift events, newest first" }, lines) : h("p.muted", none),
            more(found.length - SHOWN_MAX, "older, in the table and the CSV."),
        );
    });
}

/** Events by drift, the newest first: at most one of each learner, all within the rows of an episode. */
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
    const said = (event) => (event.row === lead.row ? finder(event) : `${finder(event)} (row ${whole(event.row)})`);
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
                h("span.event-row", `Row ${whole(lead.row)}`),
                h("span.event-text",
                    eventSentence(lead),
                    " ",
                    lead.action !== "report" && h("span.badge.warn", lead.action),
                    by && h("span.sub", by),
                ),
                h("span.muted.small.unbroken", { title: when(lead.time) }, ago(lead.time)),
            ),
            eventDetail(lead),
            others.map(otherDetail),
        ),
    );
}

/** What another learner has found of the same drift. */
function otherDetail(event) {
    const said = `Detected by ${finder(event)} at row ${whole(event.row)}: ${eventSentence(event)}`;
    return folded(said, eventDetail(event), { data: { key: event.id } });
}

/** Everything an event tells beside what it found. */
function eventDetail(event) {
    const windows = `${rowsText(event.windows.before)} before, ${rowsText(event.windows.after)} after`;
    return h("div.event-detail",
        h("dl.facts",
            fact("When", `${when(event.time)} (${ago(event.time)}), version ${event.version}`),
            fact("Compared", `${windows}; threshold ${number(event.epsilon_cut)}`),
            fact("Action", actionOf(event)),
        ),
        event.features.length > 0 && movedTable(event.features),
        event.alarm_count > 0 && alarmList(event),
    );
}

function movedTable(features) {
    const cells = ({ name, before, after }) => [name, before, after, after - before];
    const heads = ["feature", "mean before", "mean after", "change"];
    return scrolledTable("Features that moved, largest change first", heads, features.slice(0, DETAILS_MAX).map(cells));
}

function alarmList({ alarm_count: count, alarms }) {
    const text = (label) => (label === null ? null : labelText(label));
    const cells = (own) => [own.row, own.kind, text(own.class), own.features[0]?.name];
    const heads = ["row", "test", "class", "feature that moved most"];
    const table = scrolledTable("Later alarms", heads, alarms.map(cells));
    const title = `${count} later ${count === 1 ? "alarm" : "alarms"} of the same episode`;
    return folded(title, [table, more(count - alarms.length, "more, which are not kept.")]);
}

/** Show what is behind marks below their chart; pressing the same button again hides it. */
export function markDetails(place, marks, found, button) {
    const open = button.getAttribute("aria-expanded") !== "true";
    for (const own of button.parentElement?.children ?? []) own.ariaExpanded = String(open && own === button);
    place.hidden = !open;
    const close = () => {
        markDetails(place, marks, found, button);
        button.focus();
    };
    fill(place,
        h("div.row",
            h("h3.grow", marks.length === 1 ? "What happened" : `${marks.length} marks`),
            h("button.button.quiet.small", { on: { click: close } }, "Close"),
        ),
        marks.slice(0, DETAILS_MAX).map((mark) => markDetail(mark, found)),
        more(marks.length - DETAILS_MAX, "more, in the table of drift events."),
    );
}

function markDetail(mark, found) {
    const own = ({ row, kind, challenger }) => row === mark.row && kind === mark.test && challenger === null;
    const event = mark.kind === "drift" ? found?.events.find(own) : null;
    return h("div.event", { data: { kind: mark.kind } },
        h("p", h("strong", `Row ${whole(mark.row)}`), " ", markSentence(mark)),
        event && [h("p", eventSentence(event)), eventDetail(event)],
    );
}
