/**
 * The page of all models. Which of them are shown stands in the address: it can be kept, shared and gone back to.
 */

import { whole } from "../format.js";
import { json } from "../api.js";
import { fill, h } from "../dom.js";
import { askForKey } from "../key.js";
import { poll, STATES } from "../poll.js";
import { whenRead } from "../shell.js";
import { calls, firstModel, nothingFound } from "./empty.js";
import { Health } from "./health.js";
import { List } from "./list.js";

const LIMIT = 50;
const SEARCH_MS = 250;
const TICK_MS = 1000;
const SORTS = ["worst", "name", "rows", "updated"];

const at = (id) => document.getElementById(id);
const list = new List(at("rows"));
const health = new Health(at("health"));
let view = viewOf(location);
let following = new AbortController();
let sorted = false;
let models = null;
let service = {};

/** What the address asks for; cursors of the pages before this one are known to those who came by them. */
function viewOf({ search }) {
    const query = new URLSearchParams(search);
    const sort = query.get("sort");
    return {
        sort: SORTS.includes(sort) ? sort : "worst",
        search: query.get("search") ?? "",
        cursor: query.get("cursor"),
        before: history.state?.before ?? [],
    };
}

function addressOf({ sort, search, cursor }) {
    const url = new URL(location.href);
    url.search = "";
    if (sort !== "worst") url.searchParams.set("sort", sort);
    if (search) url.searchParams.set("search", search);
    if (cursor) url.searchParams.set("cursor", cursor);
    return url;
}

/** Show another part of the list; a search that is being typed leaves one step to go back to. */
function go(changes, { replace = false } = {}) {
    view = { ...view, cursor: null, before: [], ...changes };
    history[replace ? "replaceState" : "pushState"]({ before: view.before }, "", addressOf(view));
    show();
}

function show() {
    following.abort();
    following = new AbortController();
    sorted = false;
    for (const button of at("order").children) {
        button.setAttribute("aria-pressed", String(button.dataset.sort === view.sort));
    }
    if (at("search").value.trim() !== view.search) at("search").value = view.search;
    const query = { sort: view.sort, limit: LIMIT, search: view.search || null, cursor: view.cursor, totals: true };
    const look = async (signal) => {
        const page = await json("models", { query, signal });
        if (signal.aborted) return;
        showService({ models: page.total, rows_per_s: page.rows_per_s });
        await showModels(page);
    };
    poll(look, { signal: following.signal, onState: showState });
}

async function showModels(page) {
    models = page.models;
    const none = models.length === 0;
    const news = list.update(models, !sorted);
    sorted = true;
    at("list").hidden = none;
    at("calls").hidden = none;
    at("costs").hidden = !models.some((model) => (model.mean_cost ?? null) !== null);
    at("again").hidden = !list.unsorted;
    at("previous").disabled = view.cursor === null;
    at("next").disabled = !page.next;
    at("next").dataset.cursor = page.next ?? "";
    at("paging").hidden = view.cursor === null && !page.next;
    showCount();
    say(news);
    await showEmpty(none);
}

async function showEmpty(none) {
    const place = at("empty");
    const wanted = none ? `${view.search}|${view.cursor ?? ""}` : "";
    if (place.dataset.shown === wanted) return;
    place.dataset.shown = wanted;
    place.hidden = !none;
    at("toolbar").hidden = none && !view.search && !view.cursor;
    const shown = none ? await instead() : null;
    if (place.dataset.shown === wanted) fill(place, shown);
}

/** What stands in place of a list without models. */
async function instead() {
    if (view.cursor) return h("div.card.empty", h("p", "There are no more models on this page of the list."));
    if (view.search) return nothingFound(view.search, () => go({ search: "" }));
    try {
        return await firstModel();
    } catch (error) {
        return problemNotice(error);
    }
}

async function showCalls() {
    if (!at("calls").open) return;
    try {
        fill(at("calls-inside"), await calls());
    } catch (error) {
        fill(at("calls-inside"), problemNotice(error));
    }
}

function showService(found) {
    service = { ...service, ...found };
    if ("ready" in service) health.update(service);
    showCount();
}

function showCount() {
    if (models === null) return;
    const all = service.models;
    at("count").textContent = view.search || all === undefined ? "" : whole(all);
    const first = view.before.length * LIMIT + (view.cursor === null || view.before.length ? 1 : 0);
    const some = models.length && first ? `${whole(first)} to ${whole(first + models.length - 1)}` : "";
    at("range").textContent = some && all !== undefined && !view.search ? `${some} of ${whole(all)}` : some;
}

function showState(state, problem) {
    at("live").dataset.state = state;
    at("live-text").textContent = STATES[state];
    const said = problem ? `${state}: ${problem.message}` : "";
    if (said !== at("problem").dataset.said && (state !== "reconnecting" || problem)) {
        at("problem").dataset.said = said; // an alert is read out whenever it is filled
        fill(at("problem"), problem && problemNotice(problem, state));
    }
}

/** What is wrong; while it is tried again what was shown last stays, and may be old. */
function problemNotice(problem, state = "ended") {
    const lines = problem.status === 401 ? ["This service shows its models to those who have a key."] : problem.lines;
    const again = () => askForKey("This service asks for a key.").then((given) => given && show());
    return h(
        state === "ended" ? "div.notice.bad.row" : "div.notice.warn.row",
        {},
        h("span.grow", lines.map((line) => h("p", line))),
        problem.status === 401 && h("button.button.small", { type: "button", on: { click: again } }, "Enter a key"),
    );
}

/** To screen readers: what has happened, not every number that has moved. */
function say(news) {
    if (news.length) at("said").textContent = news.slice(0, 3).join("; ") + (news.length > 3 ? "; and more" : "");
}

function listen() {
    let typing;
    at("search").addEventListener("input", ({ target }) => {
        clearTimeout(typing);
        typing = setTimeout(() => {
            const search = target.value.trim();
            if (search !== view.search) go({ search }, { replace: view.search !== "" });
        }, SEARCH_MS);
    });
    at("order").addEventListener("click", ({ target }) => {
        if (target.dataset.sort) go({ sort: target.dataset.sort });
    });
    at("again").addEventListener("click", () => {
        list.sort();
        at("again").hidden = true;
    });
    at("calls").addEventListener("toggle", showCalls);
    at("next").addEventListener("click", ({ target }) => {
        go({ cursor: target.dataset.cursor, before: [...view.before, view.cursor] });
        scrollTo({ top: 0 });
    });
    at("previous").addEventListener("click", () => {
        go({ cursor: view.before.at(-1) ?? null, before: view.before.slice(0, -1) });
        scrollTo({ top: 0 });
    });
    addEventListener("popstate", () => {
        view = viewOf(location);
        show();
    });
    setInterval(() => document.hidden || list.tick(), TICK_MS);
}

listen();
whenRead(showService);
show();
