// The head of the page: what the model is, how far it has come, whether the page is live, and what it says when the
// model is gone, out of service or not to be seen.

import { root } from "../api.js";
import { light, lightOf } from "../comparison.js";
import { byId, fact, fill, h, patch } from "../dom.js";
import { ago, number, when } from "../format.js";
import { STATES } from "../poll.js";
import { scoreOf } from "./words.js";

const KEYLESS = "This service needs a key. Reload the page to enter one.";
const at = (name) => byId(`model-${name}`);

export function head(model) {
    document.title = `${model.name} – Onepass`;
    at("name").textContent = model.name;
    const updated = h("dd", { id: "model-updated" });
    const speed = h("dd", { id: "model-speed" });
    const clock = () => {
        const { model: shown } = model.docs;
        if (!shown) return;
        updated.textContent = ago(shown.updated);
        updated.title = when(shown.updated);
        const rate = model.speed();
        speed.textContent = rate === null ? "–" : number(rate, rate < 10 ? 1 : 0);
    };
    model.when(["model"], ({ model: shown }) => {
        const { algorithm, task, description, tags = {} } = shown.config;
        fill(at("badges"), h("span.badge", algorithm), h("span.badge", task));
        const show = (name, ...children) => {
            fill(at(name), children).hidden = !children.flat().some(Boolean);
        };
        show("description", description);
        show("tags", Object.entries(tags).map(([key, value]) => h("li.tag", h("span.muted", key), value)));
        fill(at("stats"), stats(shown, updated, speed));
        clock();
    });
    model.when(["model", "challengers"], (docs) => {
        const found = lightOf(summaryOf(docs));
        patch(at("status"), light(found), h("span", found.sentence));
        at("status").hidden = false;
    });
    setInterval(clock, 1000);
}

function stats({ rows, info }, updated, speed) {
    const stat = (name, value) => h("div", h("dt", name), value);
    const own = info.learner_rows;
    return [
        stat("Rows", h("dd", { id: "model-rows" }, number(rows))),
        own !== undefined && fact("Learned by its learner", number(own), "Rows that the current learner has learned"),
        stat("Rows per second", speed),
        stat("Updated", updated),
    ];
}

/** The model as the list has it, for its light. */
function summaryOf({ model: { config, phase, rows }, metrics, challengers }) {
    const { overall, baselines, paired } = metrics;
    const key = scoreOf(config.task);
    const others = Object.entries(baselines).filter(([name]) => name !== "served").map(([, own]) => own[key]);
    const known = others.filter(Number.isFinite);
    return {
        ...{ task: config.task, phase, rows, score: overall[key] ?? null },
        baseline: known.length ? Math[key === "mse" ? "min" : "max"](...known) : null,
        paired_score: paired?.overall.mse ?? null,
        mean_cost: overall.costs?.mean ?? null,
        baseline_cost: overall.costs?.constant ?? null,
        drift: metrics.marks.findLast(({ kind }) => kind === "drift"),
        ahead: challengers.challengers.filter(({ difference }) => difference.low > 0).length,
    };
}

/** Show whether the model is looked at; to be told of each state. */
export function stateShown(model) {
    const badge = byId("live");
    const banner = byId("banner");
    let last = null;
    return (state, told) => {
        const problem = told ?? (state === "reconnecting" ? last : null); // said until the model is there again
        const never = state === "ended" && !model.docs.model; // nothing has ended: there never was one
        const notice = noticeOf(model, state, problem);
        last = problem;
        badge.dataset.state = state;
        badge.querySelector("span:last-child").textContent = STATES[state];
        badge.hidden = never;
        fill(banner, notice).hidden = !notice;
        byId("parts").hidden = never;
        document.body.classList.toggle("model-gone", state === "ended");
    };
}

function noticeOf({ name, docs }, state, problem) {
    const bad = (...said) => h("p.notice.bad", said);
    const back = h("a", { href: root.href }, "All models");
    if (state === "ended" && (!problem || problem.status === 404)) {
        const gone = `Model ${name} was deleted. This page shows its last known state. `;
        return bad(docs.model ? gone : `There is no model ${name}. `, back);
    }
    if (problem?.status === 401) return bad(KEYLESS);
    if (problem?.status === 403) return bad(`Your key does not cover model ${name}: ${problem.message} `, back);
    if (state === "ended") return bad(problem.message);
    if (problem?.status === 503) return bad(`${problem.message.replace(/\.$/, "")}. The page will try again.`);
    if (state !== "reconnecting" || !docs.model) return null;
    const said = "The service cannot be reached; this page may be out of date. The page will try again.";
    return h("p.notice.warn", said);
}
