// What changes, as it changes: server-sent events read with fetch, since EventSource cannot send a key.
//
// A stream that breaks is opened again after a pause that doubles, with jitter. A page that is not looked at closes its
// stream: browsers open six connections to a server, for all tabs together.

import { Problem, request } from "./api.js";

/** What pages call the states of a stream. */
export const STATES = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", ended: "Ended" };

const PAUSE_MS = 500;
const PAUSE_MAX_MS = 15_000;
const SILENCE_MS = 60_000; // longer than between two comments that keep a stream open
const HIDDEN_MS = 5000;

/**
 * Follow a stream until the signal, its deletion, or a refusal that trying again would not change.
 * @param {string | URL} url path or address of the stream
 * @param {Record<string, (data: any, id: string) => void>} handlers by event; "end" is told of before the pause
 * @param {{signal?: AbortSignal, query?: object, onState?: (state: "connecting" | "live" | "reconnecting" | "ended",
 *     problem?: Problem) => void}} [how]
 * @returns {Promise<void>}
 */
export async function follow(url, handlers, { signal, query, onState: tell = () => {} } = {}) {
    const over = signal ?? new AbortController().signal;
    let failures = 0;
    tell("connecting");
    while (!over.aborted) {
        await visible(over);
        const attempt = attemptOf(over);
        try {
            const heard = await read(url, query, handlers, attempt, () => { failures = 0; tell("live"); });
            if (heard === "deleted") {
                return tell("ended");
            }
        } catch (error) {
            if (over.aborted) {
                return;
            }
            if (final(error)) {
                return tell("ended", error);
            }
            if (error.name !== "AbortError") {
                tell("reconnecting", error instanceof Problem ? error : undefined);
            }
        } finally {
            attempt.done();
        }
        if (over.aborted) {
            return;
        }
        if (!attempt.hidden) {
            tell("reconnecting");
            await pause(pauseMs(failures++), over);
        }
    }
}

/** Whether the service refuses what it is asked for, and would refuse it again. */
function final(error) {
    return error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429;
}

/** Milliseconds before the n-th attempt after a failure. */
function pauseMs(failures) {
    return Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** failures) * (0.5 + Math.random());
}

/** One attempt: aborted with the whole, in silence, and when the page has been hidden for a while. */
function attemptOf(over) {
    const control = new AbortController();
    let silence;
    let leaving;
    const attempt = {
        signal: control.signal,
        hidden: false,
        heard() {
            clearTimeout(silence);
            silence = setTimeout(() => control.abort(), SILENCE_MS);
        },
        done() {
            clearTimeout(silence);
            clearTimeout(leaving);
            over.removeEventListener("abort", stop);
            removeEventListener("offline", stop);
            document.removeEventListener("visibilitychange", changed);
            control.abort();
        },
    };
    const stop = () => control.abort();
    const changed = () => {
        clearTimeout(leaving);
        if (document.hidden) {
            leaving = setTimeout(() => { attempt.hidden = true; control.abort(); }, HIDDEN_MS);
        }
    };
    over.addEventListener("abort", stop);
    addEventListener("offline", stop);
    document.addEventListener("visibilitychange", changed);
    attempt.heard();
    return attempt;
}

async function read(url, query, handlers, attempt, opened) {
    const headers = { Accept: "text/event-stream" };
    const response = await request(url, { query, headers, signal: attempt.signal });
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const { done, value } = await reader.read();
        if (done) {
            return "closed";
        }
        attempt.heard();
        const events = (rest + value).split("\n\n");
        rest = events.pop();
        for (const { event, data, id } of events.map(parse)) {
            if (data !== undefined) {
                handlers[event]?.(data, id);
            }
            if (event === "end") {
                return data?.reason?.includes("deleted") ? "deleted" : "closed";
            }
        }
    }
}

/** One event of a stream; its data are JSON. Comments have none. */
export function parse(text) {
    const found = { event: "message", id: "" };
    const lines = [];
    for (const line of text.split("\n")) {
        const [, field, value] = /^([a-z]*): ?(.*)$/.exec(line) ?? [];
        if (field === "data") {
            lines.push(value);
        } else if (field === "event" || field === "id") {
            found[field] = value;
        }
    }
    return lines.length ? { ...found, data: JSON.parse(lines.join("\n")) } : found;
}

function pause(ms, over) {
    return new Promise((resolve) => {
        const timer = setTimeout(finish, ms);
        function finish() {
            clearTimeout(timer);
            over.removeEventListener("abort", finish);
            removeEventListener("online", finish);
            resolve();
        }
        over.addEventListener("abort", finish);
        addEventListener("online", finish);
    });
}

function visible(over) {
    return new Promise((resolve) => {
        const look = () => {
            if (!document.hidden || over.aborted) {
                document.removeEventListener("visibilitychange", look);
                over.removeEventListener("abort", look);
                resolve();
            }
        };
        document.addEventListener("visibilitychange", look);
        over.addEventListener("abort", look);
        look();
    });
}
