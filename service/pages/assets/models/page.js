// The page of all models. Which of them are shown stands in the address: it can be kept, shared and gone back to.

import { json } from "../api.js";
import { callable } from "../copy.js";
import { byId, choice, fill, h, patch } from "../dom.js";
import { whole } from "../format.js";
import { askForKey } from "../key.js";
import { poll, showState } from "../poll.js";
import { whenRead } from "../shell.js";
import { newModel } from "./create.js";
import { List, speedText } from "./list.js";

const LIMIT = 50;
const SEARCH_MS = 250;
const TICK_MS = 1000;
const SORTS = [["worst", "Worst first"], ["name", "Name"], ["rows", "Most rows"], ["updated", "Latest"]];
const WORST = "worst";
const DURABILITY = { always: "At every write", everysec: "Every second" };
/** The service in a line of figures: what each says, and whether that is wrong. */
const FIGURES = [
    ["Service", ({ ready }) => (ready ? "Ready" : ready === null ? "Unreachable" : "Not ready"), ({ ready }) => !ready],
    ["Store", ({ store }) => capital(store), ({ store }) => store !== "up"],
    ["Written to disk", ({ durability }) => DURABILITY[durability] ?? capital(durability), () => false],
    ["Lag", ({ lag }) => `${whole(lag)} ${lag === 1 ? "entry" : "entries"}`, ({ checks }) => checks?.lag === false],
    ["Rows/s", ({ rows_per_s: speed }) => speedText(speed), () => false],
];

const list = new List(byId("rows"));
const order = choice("Order", SORTS, (sort) => go({ sort }));
let view = viewOf(location);
let following = new AbortController();
let sorted = false;
let models = null;
let service = {};

const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);

/** What the address asks for; cursors of the pages before this one are known to those who came by them. */
function viewOf({ search }) {
    const query = new URLSearchParams(search);
    const [sort] = SORTS.find(([own]) => own === query.get("sort")) ?? SORTS[0];
    const before = history.state?.before ?? [];
    return { sort, search: query.get("search") ?? "", cursor: query.get("cursor"), before };
}

function addressOf({ sort, search, cursor }) {
    const url = new URL(location.href);
    const shown = Object.entries({ sort: sort === WORST ? "" : sort, search, cursor }).filter(([, own]) => own);
    url.search = new URLSearchParams(shown);
    return url;
}

/** Show another part of the list; a search that is being typed leaves one step to go back to. */
function go(changes, { replace = false } = {}) {
    view = { ...view, cursor: null, before: [], ...changes };
    history[replace ? "replaceState" : "pushState"]({ before: view.before }, "", addressOf(view));
    if (changes.before) scrollTo({ top: 0 }); // another page of the list
    show();
}

function show() {
    following.abort();
    following = new AbortController();
    sorted = false;
    order.offer(SORTS, view.sort);
    if (byId("search").value.trim() !== view.search) byId("search").value = view.search;
    const query = { sort: view.sort, limit: LIMIT, search: view.search || null, cursor: view.cursor, totals: true };
    const look = async (signal) => {
        const page = await json("models", { query, signal });
        if (signal.aborted) return;
        showService({ models: page.total, rows_per_s: page.rows_per_s });
        await showModels(page);
    };
    poll(look, { signal: following.signal, onState: showStateAndProblem });
}

async function showModels(page) {
    if (models === null) json("key").then(({ scope }) => { byId("create").hidden = scope !== "admin"; }, () => {});
    models = page.models;
    const none = models.length === 0;
    const news = list.update(models, !sorted || (view.sort === WORST && !beingRead()));
    const told = `${news.slice(0, 3).join("; ")}${news.length > 3 ? "; and more" : ""}`;
    if (told) byId("said").textContent = told; // to screen readers: not every number that has moved
    sorted = true;
    byId("list").hidden = byId("calls").hidden = none;
    byId("costs").hidden = !models.some((model) => Number.isFinite(model.mean_cost));
    byId("again").hidden = !list.unsorted;
    byId("previous").disabled = view.cursor === null;
    byId("next").disabled = !page.next;
    byId("next").dataset.cursor = page.next ?? "";
    byId("paging").hidden = view.cursor === null && !page.next;
    showCount();
    await showEmpty(none);
}

/** Whether somebody points at a row or has the focus there: it stays where it is for as long. */
const beingRead = () => byId("rows").matches(":hover, :focus-within");

async function showEmpty(none) {
    const place = byId("empty");
    const wanted = none ? `${view.search}|${view.cursor ?? ""}` : "";
    if (place.dataset.shown === wanted) return;
    place.dataset.shown = wanted;
    place.hidden = !none;
    byId("toolbar").hidden = none && !view.search && !view.cursor;
    const shown = none ? await instead() : null;
    if (place.dataset.shown === wanted) fill(place, shown);
}

/** What stands in place of a list without models. */
function instead() {
    if (view.cursor) return notice(null, "This page of the list has no models any more.");
    if (!view.search) return firstModel().catch(problemNotice);
    const button = h("button.button", { on: { click: () => go({ search: "" }) } }, "Show all models");
    return notice(null, `No model’s name contains “${view.search}”.`, button);
}

const copyOf = (id) => callable(byId(id).content.cloneNode(true));

/** The three calls, for a service without models; what a key may do decides whether they are shown. */
async function firstModel() {
    const { scope, models } = await json("key");
    const none = models.length ? "This key covers no models yet" : "No models yet";
    if (scope !== "admin") return notice(none, mayNot(scope));
    const shown = copyOf("first-model");
    shown.querySelector("h2").textContent = none;
    shown.querySelector(".primary").addEventListener("click", newModel);
    return shown;
}

function mayNot(scope) {
    const may = scope === "read" ? "read" : "read and teach";
    return `This key may ${may}; creating models needs a key with the scope admin.`;
}

/** A card in place of the list. */
function notice(title, ...children) {
    return h("div.card.empty.stack", title && h("h2", title), children.map((own) => h("div", own)));
}

/** The same calls for a service that has models, or why they are not for this key. */
async function showCalls() {
    if (!byId("calls").open) return;
    const shown = ({ scope }) => (scope === "admin" ? copyOf("three-calls") : h("p.muted", mayNot(scope)));
    fill(byId("calls-inside"), await json("key").then(shown).catch(problemNotice));
}

function showService(found) {
    service = { ...service, ...found };
    const figure = ([name, text, wrong]) => h("div", h("dt", name), h(wrong(service) ? "dd.bad" : "dd", text(service)));
    if ("ready" in service) patch(byId("health"), FIGURES.map(figure));
    showCount();
}

function showCount() {
    if (models === null) return;
    const all = service.models;
    byId("count").textContent = view.search || all === undefined ? "" : whole(all);
    const first = view.before.length * LIMIT + (view.cursor === null || view.before.length ? 1 : 0);
    const some = models.length && first ? `${whole(first)} to ${whole(first + models.length - 1)}` : "";
    byId("range").textContent = some && all !== undefined && !view.search ? `${some} of ${whole(all)}` : some;
}

function showStateAndProblem(state, problem) {
    showState(state);
    if (state === "reconnecting" && !problem) return;
    patch(byId("problem"), problem && problemNotice(problem, state)); // read out where it changes
}

/** What is wrong; while it is tried again what was shown last stays, and may be old. */
function problemNotice(problem, state) {
    const keyless = problem.status === 401;
    const lines = keyless ? ["You need a key to see the models of this service."] : problem.lines;
    const click = () => askForKey("This service needs a key.").then((given) => given && show());
    return h(`div.notice.row.${state === "reconnecting" ? "warn" : "bad"}`,
        h("span.grow", lines.map((line) => h("p", line))),
        keyless && h("button.button.small", { on: { click } }, "Enter a key"),
    );
}

const on = (id, event, listener) => byId(id).addEventListener(event, listener);
let typing;
on("search", "input", ({ target }) => {
    clearTimeout(typing);
    typing = setTimeout(() => {
        const search = target.value.trim();
        if (search !== view.search) go({ search }, { replace: view.search !== "" });
    }, SEARCH_MS);
});
on("again", "click", () => {
    list.update(models, true);
    byId("again").hidden = true;
});
on("calls", "toggle", showCalls);
on("create", "click", newModel);
on("next", "click", ({ target }) => go({ cursor: target.dataset.cursor, before: [...view.before, view.cursor] }));
on("previous", "click", () => go({ cursor: view.before.at(-1) ?? null, before: view.before.slice(0, -1) }));
addEventListener("popstate", () => {
    view = viewOf(location);
    show();
});
setInterval(() => document.hidden || list.draw(), TICK_MS);

byId("order").replaceWith(order.element);
whenRead(showService);
show();
