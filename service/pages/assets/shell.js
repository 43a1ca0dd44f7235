// What every page has: the switch of light and dark, the key, the state of the service.

import { address } from "./api.js";
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
    const said = document.getElementById("theme-text");
    const name = () => { said.textContent = page.dataset.theme === "dark" ? "Use light colours" : "Use dark colours"; };
    document.getElementById("theme-button").addEventListener("click", () => {
        page.dataset.theme = page.dataset.theme === "dark" ? "light" : "dark";
        localStorage.setItem("onepass.theme", page.dataset.theme);
    });
    new MutationObserver(name).observe(page, { attributes: true, attributeFilter: ["data-theme"] });
    name();
}

function keyButton() {
    const button = document.getElementById("key-button");
    const show = () => { button.hidden = key() === null; };
    button.addEventListener("click", async () => {
        if (await askForKey("Another key shows what that key may see.")) {
            location.reload();
        }
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
        return ready ? ["ready", "Ready"] : ["down", `Not ready${failed.length ? `: ${failed.join(", ")}` : ""}`];
    } catch {
        return ["down", "Not reached"];
    }
}

function watchService() {
    const place = document.getElementById("service");
    const text = document.getElementById("service-text");
    const look = async () => {
        const [state, said] = await readiness();
        if (text.textContent === said) return;
        place.dataset.state = state;
        text.textContent = said;
    };
    poll(look, { every: READY_MS });
}

themeSwitch();
keyButton();
watchService();
