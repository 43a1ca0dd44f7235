// Calls of the API: addresses under the service's root, the key in a header, errors as Problem.

import { askForKey, key, keyHeaders } from "./key.js";

/** The service's root as a URL; it ends with a slash. */
export const root = new URL(document.documentElement.dataset.root, location.href);

/**
 * The address of a route.
 * @param {string} path without a slash in front: "models/demo"
 * @param {Record<string, unknown>} [query] null and undefined are left out
 * @returns {URL}
 */
export function address(path, query = {}) {
    const url = new URL(path, root);
    for (const [name, value] of Object.entries(query)) {
        if (value !== null && value !== undefined) {
            url.searchParams.set(name, String(value));
        }
    }
    return url;
}

/** The path of a model: "models/NAME", or of something below it. */
export function modelPath(name, below = "") {
    return `models/${encodeURIComponent(name)}${below && `/${below}`}`;
}

/** What the service refused, or could not do; status 0: it was not reached. */
export class Problem extends Error {
    /** @param {{status: number, title?: string, detail?: string, type?: string, errors?: object[]}} said */
    constructor(said) {
        super(said.detail || said.title || `The service answered ${said.status}.`);
        this.name = "Problem";
        this.status = said.status;
        /** The last part of the problem's type: "not-found". */
        this.slug = (said.type ?? "").split(/[:/]/).pop();
        this.type = said.type ?? "";
        /** What is wrong, field by field: {field, problem, allowed}. */
        this.errors = Array.isArray(said.errors) ? said.errors : [];
    }

    /** The address of the page that says what to do; null where the answer is not one of the service's problems. */
    get page() {
        return this.type.includes("/problems/") ? address(`problems/${encodeURIComponent(this.slug)}`) : null;
    }

    /** Sentences for a reader: the detail, then a line for each field that it does not say already. */
    get lines() {
        const fields = this.errors.map((error) => `${error.field} ${wrong(error)}`);
        return this.errors.length === 1 && this.message.includes(this.errors[0].problem)
            ? fields
            : [this.message, ...fields];
    }
}

/** What is wrong with a field, and what is allowed there. */
export function wrong({ problem, allowed }) {
    return allowed === null || allowed === undefined ? problem : `${problem}; allowed: ${shown(allowed)}`;
}

function shown(value) {
    if (Array.isArray(value)) {
        return value.map(shown).join(", ");
    }
    return typeof value === "object" ? JSON.stringify(value) : String(value);
}

async function problemOf(response) {
    try {
        return new Problem({ ...(await response.json()), status: response.status });
    } catch {
        return new Problem({ status: response.status, title: response.statusText });
    }
}

/**
 * Send a request. A missing or refused key is asked for, and the request sent again with it.
 * @param {string | URL} to a path without a slash in front, or an address
 * @param {{method?: string, body?: unknown, query?: object, headers?: object, signal?: AbortSignal}} [how]
 * @returns {Promise<Response>} with a status below 400; 304 only where `headers` hold If-None-Match
 * @throws {Problem}
 */
export async function request(to, { method = "GET", body, query, headers = {}, signal } = {}) {
    const url = to instanceof URL ? to : address(to, query);
    const json = body === undefined ? {} : { "Content-Type": "application/json" };
    for (;;) {
        const sent = key();
        const response = await reach(url, {
            method,
            body: body === undefined ? undefined : JSON.stringify(body),
            headers: { ...json, ...headers, ...keyHeaders() },
            signal,
            cache: "no-store",
        });
        if (response.ok || response.status === 304) {
            return response;
        }
        const problem = await problemOf(response);
        const again = response.status === 401 && (key() !== sent || await askForKey(reasonFor(sent)));
        if (!again) {
            throw problem;
        }
    }
}

function reasonFor(sent) {
    return sent === null ? "This service asks for a key." : "The service does not know this key. Try another one.";
}

async function reach(url, how) {
    try {
        return await fetch(url, how);
    } catch (error) {
        if (error.name === "AbortError") {
            throw error;
        }
        throw new Problem({ status: 0, title: "Not reached", detail: "The service cannot be reached." });
    }
}

/** The JSON of an answer; null of an empty one. Arguments and errors are those of request. */
export async function json(to, how) {
    const text = await (await request(to, how)).text();
    return text === "" ? null : JSON.parse(text);
}
