/**
 * Tracked predictions that wait for their labels.
 */

import { number } from "../charts.js";
import { fact, h, patch } from "../dom.js";
import { ago } from "../format.js";
import { clipped, when } from "./words.js";

const SHOWN_MAX = 5;

/**
 * Fill the part of pending labels.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function pending(model) {
    const place = document.getElementById("pending-inside");
    const draw = () => {
        const { pending: shown } = model.docs;
        if (shown) patch(place, facts(shown), list(shown));
    };
    model.when(["pending"], draw);
    setInterval(draw, 30_000);
}

function facts(shown) {
    const { pending: waiting } = shown;
    const first = waiting.reduce((soonest, own) => (!soonest || own.expires < soonest.expires ? own : soonest), null);
    return h("dl.stats.small-stats",
        fact("Waiting", number(shown.waiting)),
        fact("Oldest expires", first ? ago(first.expires) : "–", first ? when(first.expires) : undefined),
        fact("Expired unlabelled", number(shown.expired)),
    );
}

function list({ pending: waiting, waiting: whole }) {
    if (!waiting.length)
        return h("p.quiet.small", 'Predictions asked for with "track": true wait here for their labels.');
    const rows = waiting
        .slice(0, SHOWN_MAX)
        .map((own) =>
            h("li",
                h("code.clip", { title: own.prediction_id }, own.prediction_id),
                h("span.num", said(own.prediction)),
            ),
        );
    const left = whole - SHOWN_MAX;
    return [
        h("ul.plain-list", { "aria-label": "Some of them" }, rows),
        left > 0 ? h("p.quiet.small", `and ${number(left)} more`) : null,
    ];
}

function said(prediction) {
    return typeof prediction === "number" ? number(prediction) : clipped(prediction === null ? "–" : prediction, 18);
}
