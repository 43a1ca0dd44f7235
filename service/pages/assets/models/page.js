// The page of all models. Which of them are shown stands in the address: it can be kept, shared and gone back to.

import { json, root } from "../api.js";
import { copyButton } from "../copy.js";
import { byId, fill, h, patch } from "../dom.js";
import { whole } from "../format.js";
import { askForKey, key } from "../key.js";
import { poll, STATES } from "../poll.js";
import { whenRead } from "../shell.js";
import { newModel } from "./create.js";
import { List, speedText } from "./list.js";

const LIMIT = 50;
const SEARCH_MS = 250;
const TICK_MS = 1000;
const SORTS = ["worst", "name", "rows", "updated"];
const DURABILITY = { always: "At every write", everysec: "Every second" };
const TAUGHT = { features: { outside: 4.5, wind: 2.0 }, label: 61.5, id: "mon-1" };
const CALLS = [
    ["Create a model: it only needs a task", " -X PUT", "models/boiler", { task: "regression" }],
    ["Teach it: each labelled row is predicted first, then learned", "", "models/boiler/feedback", TAUGHT],
    ["Ask it", "", "models/boiler/predict", { features: { outside: 5.0, wind: 2.0 } }],
];
const THREE = "Three calls make the first one. It appears on this page as soon as it exists.";
const DEMO = "A separate service, with models on streams that drift and change their features:";
/** The service in a line of figures: what each says, and whether that is wrong. */
const FIGURES = [
    ["Service", ({ ready }) => (ready ? "Ready" : "Not ready"), ({ ready }) => !ready],
    ["Store", ({ store }) => capital(store), ({ store }) => store !== "up"],
    ["Written to disk", ({ durability }) => DURABILITY[durability] ?? capital(durability), () => false],
    ["Lag", ({ lag }) => `${whole(lag)} ${lag === 1 ? "entry" : "entries"}`, ({ checks }) => checks?.lag === false],
    ["Rows/s", ({ rows_per_s: speed }) => speedText(speed), () => false],
];

const list = new List(byId("rows"));
let view = viewOf(location);
let following = new AbortController();
let sorted = false;
let models = null;
let service = {};

const capital = (word) => word.charAt(0).toUpperCase() + word.slice(1);

/** What the address asks for; cursors of the pages before this one are known to those who came by them. */
function viewOf({ search }) {
    const query = new URLSearchParams(search);
    const [sort] = SORTS.filter((own) => own === query.get("sort"));
    const before = history.state?.before ?? [];
    return { sort: sort ?? SORTS[0], search: query.get("search") ?? "", cursor: query.get("cursor"), before };
}

function addressOf({ sort, search, cursor }) {
    const url = new URL(location.href);
    const shown = Object.entries({ sort: sort === SORTS[0] ? "" : sort, search, cursor }).filter(([, own]) => own);
    url.search = new URLSearchParams(shown);
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
    for (const button of byId("order").children) {
        button.setAttribute("aria-pressed", String(button.dataset.sort === view.sort));
    }
    if (byId("search").value.trim() !== view.search) byId("search").value = view.search;
    const query = { sort: view.sort, limit: LIMIT, search: view.search || null, cursor: view.cursor, totals: true };
    const look = async (signal) => {
        const page = await json("models", { query, signal });
        if (signal.aborted) return;
        showService({ models: page.total, rows_per_s: page.rows_per_s });
        await showModels(page);
    };
    poll(look, { signal: following.signal, onState: showState });
}

/** Whether the key in use may create models. */
async function showCreate() {
    const { scope } = await json("key").catch(() => ({}));
    byId("create").hidden = scope !== "admin";
}

async function showModels(page) {
    if (models === null) showCreate();
    models = page.models;
    const none = models.length === 0;
    say(list.update(models, !sorted || (view.sort === SORTS[0] && !beingRead())));
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
    if (view.search) return nothingFound(view.search, () => go({ search: "" }));
    return firstModel().catch(problemNotice);
}

/** The three calls, for a service without models; what a key may do decides whether they are shown. */
async function firstModel() {
    const { scope, models } = await json("key");
    const none = models.length ? "This key covers no models yet" : "No models yet";
    if (scope !== "admin") return notice(none, mayNot(scope));
    const card = (title, ...children) =>
        h("div.card.first", h("header", h("h2", title)), h("div.inside.stack", children));
    const installed = h("p.muted.small", "If installed by make: .venv/bin/onepass demo.");
    return h("div.stack",
        card(none, h("p", h("button.button.primary", { type: "button", on: { click: newModel } }, "New model")),
            h("p.muted", THREE), callList()),
        card("Or watch some models at work", h("p.muted", DEMO), code("onepass demo"), installed),
    );
}

/** The same calls for a service that has models, or why they are not for this key. */
async function calls() {
    const { scope } = await json("key");
    return scope === "admin" ? callList() : h("p.muted", mayNot(scope));
}

function mayNot(scope) {
    const may = scope === "read" ? "read" : "read and teach";
    return `This key may ${may}; creating models needs a key with the scope admin.`;
}

/** A card in place of the list. */
function notice(title, ...children) {
    return h("div.card.empty.stack", title && h("h2", title), children.map((own) => h("div", own)));
}

/** What is shown where no name contains what was searched for; `clear` ends the search. */
function nothingFound(search, clear) {
    const button = h("button.button", { type: "button", on: { click: clear } }, "Show all models");
    return notice(null, `No model’s name contains “${search}”.`, button);
}

function callList() {
    const secret = key() === null ? "" : ' -H "Authorization: Bearer $ONEPASS_API_KEY"';
    const text = (method, path, body) =>
        `curl${method} ${new URL(path, root)}${secret} \\\n  --json '${JSON.stringify(body)}'`;
    return h("ol.calls", CALLS.map(([said, ...call]) => h("li.stack.tight", h("span", said), code(text(...call)))));
}

/** Text with a button that copies it. */
const code = (text) => h("div.code", h("pre", { tabindex: "0" }, text), copyButton());

async function showCalls() {
    if (byId("calls").open) fill(byId("calls-inside"), await calls().catch(problemNotice));
}

function showService(found) {
    service = { ...service, ...found };
    const figure = ([name, text, wrong]) =>
        h("div", h("dt", name), h(wrong(service) ? "dd.bad" : "dd", text(service)));
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

function showState(state, problem) {
    byId("live").dataset.state = state;
    byId("live-text").textContent = STATES[state];
    const said = problem ? `${state}: ${problem.message}` : "";
    if (said !== byId("problem").dataset.said && (state !== "reconnecting" || problem)) {
        byId("problem").dataset.said = said; // an alert is read out whenever it is filled
        fill(byId("problem"), problem && problemNotice(problem, state));
    }
}

/** What is wrong; while it is tried again what was shown last stays, and may be old. */
function problemNotice(problem, state) {
    const keyless = problem.status === 401;
    const lines = keyless ? ["You need a key to see the models of this service."] : problem.lines;
    const click = () => askForKey("This service needs a key.").then((given) => given && show());
    return h(`div.notice.row.${state === "reconnecting" ? "warn" : "bad"}`,
        h("span.grow", lines.map((line) => h("p", line))),
        keyless && h("button.button.small", { type: "button", on: { click } }, "Enter a key"),
    );
}

/** To screen readers: what has happened, not every number that has moved. */
function say(news) {
    if (news.length) byId("said").textContent = news.slice(0, 3).join("; ") + (news.length > 3 ? "; and more" : "");
}

function listen() {
    const on = (id, event, listener) => byId(id).addEventListener(event, listener);
    const turn = (cursor, before) => {
        go({ cursor, before });
        scrollTo({ top: 0 });
    };
    let typing;
    on("search", "input", ({ target }) => {
        clearTimeout(typing);
        typing = setTimeout(() => {
            const search = target.value.trim();
            if (search !== view.search) go({ search }, { replace: view.search !== "" });
        }, SEARCH_MS);
    });
    on("order", "click", ({ target }) => target.dataset.sort && go({ sort: target.dataset.sort }));
    on("again", "click", () => {
        list.sort();
        byId("again").hidden = true;
    });
    on("calls", "toggle", showCalls);
    on("create", "click", newModel);
    on("next", "click", ({ target }) => turn(target.dataset.cursor, [...view.before, view.cursor]));
    on("previous", "click", () => turn(view.before.at(-1) ?? null, view.before.slice(0, -1)));
    addEventListener("popstate", () => {
        view = viewOf(location);
        show();
    });
    setInterval(() => document.hidden || list.draw(), TICK_MS);
}

listen();
whenRead(showService);
show();
