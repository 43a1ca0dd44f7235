// The head of the page: what the model is, how far it has come, whether the page is live, and what it says when the
// model is gone, out of service or not to be seen.

import { root } from "../api.js";
import { light } from "../comparison.js";
import { byId, fact, fill, h, patch } from "../dom.js";
import { ago, number, when } from "../format.js";
import { showState } from "../poll.js";
import { errorsOf, headline } from "./score.js";

const KEYLESS = "This service needs a key. Reload the page to enter one.";
const LEARNED = "Rows that the current learner has learned";
const at = (name) => byId(`model-${name}`);

export function head(model) {
    document.title = `${model.name} – Onepass`;
    at("name").textContent = model.name;
    const updated = h("dd", { id: "model-updated" });
    const speed = h("dd", { id: "model-speed" });
    const clock = () => {
        const { model: shown } = model.docs;
        if (!shown) return;
        const rate = model.speed();
        updated.textContent = ago(shown.updated);
        updated.title = when(shown.updated);
        speed.textContent = rate === null ? "–" : number(rate, rate < 10 ? 1 : 0);
    };
    model.when(["model"], ({ model: { config, rows, info } }) => {
        const tag = ([key, value]) => h("li.tag", h("span.muted", key), value);
        const own = info.learner_rows;
        fill(at("badges"), h("span.badge", config.algorithm), h("span.badge", config.task));
        fill(at("description"), config.description);
        fill(at("tags"), Object.entries(config.tags ?? {}).map(tag));
        fill(at("stats"),
            h("div", h("dt", "Rows"), h("dd", { id: "model-rows" }, number(rows))),
            own !== undefined && fact("Rows of this learner", number(own), LEARNED),
            h("div", h("dt", "Rows per second"), speed),
            h("div", h("dt", "Updated"), updated),
        );
        clock();
    });
    model.when(["model", "challengers", "drift"], (docs) => patch(at("status"), light(summaryOf(docs), "span")));
    setInterval(clock, 1000);
}

/** The model as the list has it, for its light. */
function summaryOf({ model: { config, phase, rows }, metrics, challengers, drift: { events } }) {
    const [error, best] = errorsOf(headline(config.task, metrics.window, metrics.paired?.window));
    // As in the list: the newest, a challenger's too. After a reset, drifts of rows that are gone have no mark.
    const marks = [metrics, ...challengers.challengers.map((own) => own.metrics)].flatMap((own) => own.marks);
    const rewound = marks.some(({ kind }) => ["reset", "restore", "import"].includes(kind));
    const marked = new Set(marks.filter(({ kind }) => kind === "drift").map((mark) => mark.row));
    const holds = ({ row, kind }) => row <= rows && (!rewound || kind === "unlabelled" || marked.has(row));
    const [drift] = events.filter(holds).sort((one, other) => other.row - one.row);
    const ahead = challengers.challengers.filter(({ difference }) => difference.low > 0).length;
    return { phase, rows, error, baseline_error: best?.error, drift, ahead };
}

/** Show whether the model is looked at; to be told of each state. */
export function stateShown(model) {
    let last = null;
    return (state, told) => {
        const problem = told ?? (state === "reconnecting" ? last : null); // said until the model is there again
        const never = state === "ended" && !model.docs.model; // nothing has ended: there never was one
        last = problem;
        showState(state);
        patch(byId("banner"), noticeOf(model, state, problem));
        byId("live").hidden = byId("parts").hidden = never;
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
    return h("p.notice.warn", "The service cannot be reached; this page may be out of date. The page will try again.");
}
