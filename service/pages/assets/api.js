// Calls of the API: addresses under the service's root, the key in a header, errors as Problem.

import { askForKey, key } from "./key.js";

const SHOWN_MAX = 20; // of what a field allows
const UNKNOWN = "The service does not know this key. Try another one.";

/** The service's root as a URL; it ends with a slash. */
export const root = new URL(document.documentElement.dataset.root, location.href);

/** The address of a route, "models/demo", with a query of which null and undefined are left out. */
export function address(path, query = {}) {
    const url = new URL(path, root);
    for (const [name, value] of Object.entries(query)) {
        if (value !== null && value !== undefined) url.searchParams.set(name, String(value));
    }
    return url;
}

/** What the service refused, or could not do; status 0: it was not reached. */
export class Problem extends Error {
    /** @param {{status: number, title?: string, detail?: string, type?: string, errors?: object[]}} said */
    constructor({ status, title, detail, type = "", errors }) {
        super(detail || title || `The service answered ${status}.`);
        Object.assign(this, { name: "Problem", status, type });
        /** What is wrong, field by field: {field, problem, allowed}. */
        this.errors = Array.isArray(errors) ? errors : [];
    }

    /** The address of the page that says what to do; null where the answer is not one of the service's problems. */
    get page() {
        const [, slug] = this.type.split("/problems/");
        return slug ? address(`problems/${encodeURIComponent(slug)}`) : null;
    }

    /** Sentences for a reader: the detail, then a line for each field that it does not say already. */
    get lines() {
        const fields = this.errors.map((error) => line(error, this.message));
        const said = this.errors.every(({ problem }) => this.message.includes(problem));
        return said && fields.length ? fields : [this.message, ...fields];
    }
}

/** What is wrong with a field, and what is allowed there. */
export function wrong({ problem, allowed }) {
    return allowed === null || allowed === undefined ? problem : `${problem}; allowed: ${shown(allowed)}`;
}

/** The same with the field's name, but where the problem is all there is to say, as of the state of a model. */
export const line = (own, message) => (own.problem === message ? wrong(own) : `${own.field}: ${wrong(own)}`);

function shown(value) {
    if (!Array.isArray(value)) return typeof value === "object" ? JSON.stringify(value) : String(value);
    const left = value.length - SHOWN_MAX;
    return value.slice(0, SHOWN_MAX).map(shown).join(", ") + (left > 0 ? ` and ${left} more` : "");
}

/**
 * Send a request; `how` has method, body (or a `text` that is not JSON), query, headers, signal. A missing or refused
 * key is asked for, and the request sent again with it. What is refused is thrown as a Problem; 304 comes back where
 * `headers` hold If-None-Match.
 */
export async function request(path, { method = "GET", body, text, query, headers = {}, signal } = {}) {
    const json = body === undefined ? {} : { "Content-Type": "application/json" };
    const sent = { method, body: body === undefined ? text : JSON.stringify(body), signal, cache: "no-store" };
    for (;;) {
        const used = key();
        const all = { ...json, ...headers, ...(used !== null && { Authorization: `Bearer ${used}` }) };
        const response = await fetch(address(path, query), { ...sent, headers: all }).catch(unreached);
        if (response.ok || response.status === 304) return response;
        const reason = used === null ? "This service needs a key." : UNKNOWN;
        const again = response.status === 401 && (key() !== used || (await askForKey(reason)));
        if (!again) throw await problemOf(response);
    }
}

async function problemOf(response) {
    const { status, statusText: title } = response;
    return new Problem(await response.json().then((said) => ({ ...said, status }), () => ({ status, title })));
}

function unreached(error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ status: 0, detail: "The service cannot be reached." });
}

/** The JSON of an answer; null of an empty one. Arguments and errors are those of request. */
export async function json(path, how) {
    const text = await (await request(path, how)).text();
    return text === "" ? null : JSON.parse(text);
}
