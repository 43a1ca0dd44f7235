// What changes, as it changes: looked at again and again while somebody looks at the page.

import { Problem } from "./api.js";
import { byId } from "./dom.js";

const STATES = { connecting: "Connecting", live: "Live", reconnecting: "Reconnecting", ended: "Ended" };
const POLL_MS = 2000;
const PAUSE_MAX_MS = 15_000;

/**
 * Look now and again, until the signal or a refusal that lasts; not while the page is hidden, but as soon as it
 * is shown. After a failure the pause doubles, with jitter. `onState` is told each of STATES, and the problem.
 */
export async function poll(look, { every = POLL_MS, signal = new AbortController().signal, onState: tell = () => {} }) {
    let failures = 0;
    tell("connecting");
    while (!signal.aborted) {
        const begun = performance.now();
        if (!document.hidden) {
            try {
                await look(signal);
                failures = 0;
                if (!signal.aborted) tell("live");
            } catch (error) {
                if (signal.aborted) return;
                const { status } = error;
                if (status >= 400 && status < 500 && status !== 429) return tell("ended", error); // it stays refused
                if (!(error instanceof Problem)) console.error(error);
                tell("reconnecting", error instanceof Problem ? error : undefined);
                failures += 1;
            }
        }
        const longer = Math.min(PAUSE_MAX_MS, every * 2 ** (failures - 1)) * (0.5 + Math.random());
        const ms = (failures ? longer : every) - (performance.now() - begun);
        await pause(document.hidden ? null : ms, signal);
    }
}

/** Show in the head of a page how its poll is doing. */
export function showState(state) {
    byId("live").dataset.state = state;
    byId("live-text").textContent = STATES[state];
}

/** Wait for so long, or for as long as the page is hidden; less where it is shown, or the network goes or is back. */
function pause(ms, signal) {
    return new Promise((resolve) => {
        const over = new AbortController();
        const finish = () => {
            over.abort();
            clearTimeout(timer);
            resolve();
        };
        const timer = ms === null ? null : setTimeout(finish, Math.max(0, ms));
        const on = (target, event, handler) => target.addEventListener(event, handler, { signal: over.signal });
        on(document, "visibilitychange", () => document.hidden || finish());
        on(window, "online", finish);
        on(window, "offline", finish);
        on(signal, "abort", finish);
    });
}
