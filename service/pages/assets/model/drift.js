/**
 * Drift: one line for each drift, whoever of the model and its challengers found it; below it, what was found.
 */

import { Frame, numbersBy } from "../charts.js";
import { fill, h, patch } from "../dom.js";
import { ago } from "../format.js";
import { episodes, finder, finders, leading } from "./episodes.js";
import { eventDetail } from "./events.js";
import { eventSentence, when } from "./words.js";

const SAID = "Newest first. The model and each challenger test alone; a line is the model’s alarm if it has one.";
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
        const found = episodes(events, model.docs.model.config.watch?.episode_rows);
        const open = new Set([...list.querySelectorAll("details[open]")].map((own) => own.dataset.id));
        const shown = found.slice(0, SHOWN_MAX);
        patch(list, shown.map((episode) => episodeLine(episode, open.has(leading(episode).id))));
        frame.note(events.length ? SAID : "");
        list.hidden = !events.length;
        none.textContent = events.length ? "" : nothing(model.docs.model);
        const left = found.length - shown.length;
        more.textContent = left > 0 ? `${left} older drifts are in the table and the CSV.` : "";
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

function episodeLine(episode, open) {
    const lead = leading(episode);
    const action = lead.action === "report" ? null : h("span.badge.warn", lead.action);
    const others = episode.filter((event) => event !== lead);
    const by = others.length || lead.challenger !== null ? finders(episode) : "";
    return h("li", { data: { key: lead.id } },
        h("details.event-line", { open, data: { id: lead.id } },
            h("summary",
                h("span.event-row", `Row ${lead.row.toLocaleString("en")}`),
                h("span.event-text",
                    eventSentence(lead),
                    " ",
                    action,
                    by ? h("span.sub.event-by", `Found by ${by}`) : null,
                ),
                h("span.muted.event-time", { title: when(lead.time) }, ago(lead.time)),
            ),
            eventDetail(lead),
            others.map((event) => otherDetail(event)),
        ),
    );
}

/** What another learner has found of the same drift. */
function otherDetail(event) {
    const said = `Found by ${finder(event)} at row ${event.row.toLocaleString("en")}: ${eventSentence(event)}`;
    return h("details.folded", { data: { id: event.id } }, h("summary", said), eventDetail(event));
}

function numbersOf(events) {
    return numbersBy(events, {
        row: (own) => own.row,
        time: (own) => own.time,
        test: (own) => own.kind,
        class: (own) => (own.class === null ? null : String(own.class)),
        action: (own) => own.action,
        challenger: (own) => own.challenger,
        "rows before": (own) => own.windows.before,
        "rows after": (own) => own.windows.after,
        before: (own) => own.before,
        after: (own) => own.after,
        "later alarms": (own) => own.alarm_count,
    });
}
