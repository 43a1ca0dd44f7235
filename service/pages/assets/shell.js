// What every page has: the switch of light and dark, the key, the state of the service.

import { address } from "./api.js";
import { byId, patch } from "./dom.js";
import { askForKey, key } from "./key.js";
import { poll } from "./poll.js";

const READY_MS = 10_000;
/** What is known of a service that does not answer. */
const UNREACHABLE = { ready: null, store: "unknown", durability: "unknown", lag: NaN, rows_per_s: NaN };
const listeners = [];
let last = null;

/** Be told what /readyz tells, now and whenever it is asked. */
export function whenRead(listener) {
    listeners.push(listener);
    if (last) listener(last);
}

function themeSwitch() {
    byId("theme-button").addEventListener("click", () => {
        const dark = document.documentElement.classList.toggle("dark-mode");
        localStorage.setItem("onepass.theme", dark ? "dark" : "light");
    });
}

function keyButton() {
    byId("key-button").hidden = key() === null;
    byId("key-button").addEventListener("click", async () => {
        if (await askForKey("The page will show what the new key may see.")) location.reload();
    });
}

async function readiness() {
    const asked = fetch(address("readyz"), { cache: "no-store" }).then((answer) => answer.json());
    last = await asked.catch(() => UNREACHABLE);
    for (const listener of listeners) listener(last);
    const { ready, checks } = last;
    if (ready === null) return ["down", "Unreachable"];
    const failed = ["store", "tasks", "lag"].filter((name) => checks?.[name] === false);
    return ready ? ["ready", "Ready"] : ["down", ["Not ready", failed.join(", ")].filter(Boolean).join(": ")];
}

async function look() {
    const [state, said] = await readiness();
    byId("service").dataset.state = state;
    patch(byId("service-text"), said); // read out where it changes
}

themeSwitch();
keyButton();
poll(look, { every: READY_MS });
