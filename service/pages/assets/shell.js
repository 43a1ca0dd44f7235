// What every page has: the switch of light and dark, the key, the state of the service.

import { address } from "./api.js";
import { byId } from "./dom.js";
import { askForKey, key } from "./key.js";
import { poll } from "./poll.js";

const READY_MS = 10_000;
const listeners = [];
let last = null;

/** Be told what /readyz tells, now and whenever it is asked. */
export function whenRead(listener) {
    listeners.push(listener);
    if (last) listener(last);
}

function themeSwitch() {
    const page = document.documentElement;
    const other = () => (page.dataset.theme === "dark" ? "light" : "dark");
    const name = () => { byId("theme-text").textContent = `Use ${other()} colours`; };
    byId("theme-button").addEventListener("click", () => {
        page.dataset.theme = other();
        localStorage.setItem("onepass.theme", page.dataset.theme);
    });
    new MutationObserver(name).observe(page, { attributes: true, attributeFilter: ["data-theme"] });
    name();
}

function keyButton() {
    const show = () => { byId("key-button").hidden = key() === null; };
    byId("key-button").addEventListener("click", async () => {
        if (await askForKey("The page shows what the new key may see.")) location.reload();
    });
    document.addEventListener("onepass:key", show);
    show();
}

async function readiness() {
    try {
        const answer = await fetch(address("readyz"), { cache: "no-store" });
        last = await answer.json();
        for (const listener of listeners) listener(last);
        const { ready, checks } = last;
        const failed = ["store", "tasks", "lag"].filter((name) => checks?.[name] === false);
        return ready ? ["ready", "Ready"] : ["down", ["Not ready", failed.join(", ")].filter(Boolean).join(": ")];
    } catch {
        return ["down", "Not reached"];
    }
}

async function look() {
    const [state, said] = await readiness();
    if (byId("service-text").textContent === said) return; // it is read out whenever it is filled
    byId("service").dataset.state = state;
    byId("service-text").textContent = said;
}

themeSwitch();
keyButton();
poll(look, { every: READY_MS });
