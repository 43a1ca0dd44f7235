/**
 * Whether the page is live, and what it says when the model is gone, out of service or not to be seen.
 */

import { root } from "../api.js";
import { fill, h } from "../dom.js";
import { STATES } from "../poll.js";

/**
 * Show whether the model is looked at.
 *
 * @param {import("./documents.js").ModelDocuments} model
 * @returns {function(string, Error|undefined): void} to be told of each state
 */
export function stateShown(model) {
    const badge = document.getElementById("live");
    const banner = document.getElementById("banner");
    let last = null;
    return (state, told) => {
        const problem = told ?? (state === "reconnecting" ? last : null); // said until the model is there again
        last = problem;
        badge.dataset.state = state;
        badge.querySelector("span:last-child").textContent = STATES[state];
        badge.hidden = state === "ended" && !model.docs.model; // nothing has ended: there never was one
        const notice = noticeOf(model, state, problem);
        fill(banner, notice);
        banner.hidden = !notice;
        document.getElementById("parts").hidden = state === "ended" && !model.docs.model;
        document.body.classList.toggle("model-gone", state === "ended");
    };
}

function noticeOf(model, state, problem) {
    const back = h("a", { href: root.href }, "All models");
    if (state === "ended" && (!problem || problem.status === 404)) {
        const text = model.docs.model
            ? `Model ${model.name} has been deleted. What is shown is the last that was seen of it. `
            : `There is no model ${model.name}. `;
        return h("p.notice.bad", text, back);
    }
    if (problem?.status === 401)
        return h("p.notice.bad", "This service asks for a key, and none was given. Reload the page to give one.");
    if (problem?.status === 403) {
        return h("p.notice.bad", `The key in use may not see model ${model.name}: ${problem.message} `, back);
    }
    if (state === "ended") return h("p.notice.bad", problem.message);
    if (problem?.status === 503)
        return h("p.notice.bad", `${problem.message.replace(/\.$/, "")}. The page tries again by itself.`);
    if (state === "reconnecting" && model.docs.model) {
        return h("p.notice.warn",
            "The service is not reached; what is shown may be old. The page tries again by itself.",
        );
    }
    return null;
}
