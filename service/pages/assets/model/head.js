/**
 * The head of the page: what the model is, how far it has come, and whether the page is live.
 */

import { fact, fill, h } from "../dom.js";
import { ago } from "../format.js";
import { number } from "../charts.js";
import { bytes, when } from "./words.js";

const PHASES = {
    steady: ["", "No change of features is under way."],
    overlap: [".accent", "A change of features has begun: rows carry the old and the new ones."],
    ensemble: [".accent", "After a change of features, experts on the old and the new ones answer together."],
};

/**
 * Fill the head.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function head(model) {
    document.title = `${model.name} – Onepass`;
    document.getElementById("model-name").textContent = model.name;
    const badges = document.getElementById("model-badges");
    const description = document.getElementById("model-description");
    const tags = document.getElementById("model-tags");
    const phase = document.getElementById("model-phase");
    const updated = h("dd", { id: "model-updated" });
    const speed = h("dd", { id: "model-speed" });
    const clock = () => {
        const { model: shown } = model.docs;
        if (!shown) return;
        updated.textContent = ago(shown.updated);
        updated.title = when(shown.updated);
        const rate = model.speed.perSecond();
        speed.textContent = rate === null ? "–" : rate === 0 ? "0" : number(rate, rate < 10 ? 1 : 0);
    };
    model.when(["model"], ({ model: shown }) => {
        const { config } = shown;
        fill(badges, badge("", config.algorithm), badge("", config.task), phaseBadge(shown.phase));
        const [, meaning] = PHASES[shown.phase] ?? [];
        phase.textContent = meaning ?? "";
        phase.hidden = shown.phase === "steady" || !meaning;
        description.textContent = config.description ?? "";
        description.hidden = !config.description;
        fill(
            tags,
            Object.entries(config.tags ?? {}).map(([key, value]) => h("li.tag", h("span.muted", key), value)),
        );
        tags.hidden = !Object.keys(config.tags ?? {}).length;
        fill(document.getElementById("model-stats"), stats(shown, updated, speed));
        clock();
    });
    setInterval(clock, 1000);
}

function badge(kind, text) {
    return h(`span.badge${kind}`, text);
}

function phaseBadge(phase) {
    const [kind, meaning] = PHASES[phase] ?? ["", null];
    return h(`span.badge${kind}`, { title: meaning }, phase);
}

function stats(shown, updated, speed) {
    const stat = (name, value) => h("div", h("dt", name), value);
    return [
        stat("Rows", h("dd", { id: "model-rows" }, number(shown.rows))),
        shown.info.learner_rows !== undefined &&
            fact(
                "Learned by its learner",
                number(shown.info.learner_rows),
                "Of the rows, those that the learner that answers has learned",
            ),
        stat("Rows per second", speed),
        fact("Version", number(shown.version), "Entries of the model's log"),
        stat("Updated", updated),
        fact("Learner’s state", bytes(shown.info.state_bytes ?? 0)),
        fact("Created", when(shown.created).slice(0, 16), when(shown.created)),
        stat("Incarnation (changes if the model is recreated)", h("dd.mono.incarnation", shown.incarnation)),
    ];
}
