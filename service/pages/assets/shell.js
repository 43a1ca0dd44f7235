// What every page has: the switch of light and dark, the key, the state of the service.

import { address } from "./api.js";
import { askForKey, key } from "./key.js";

const READY_MS = 10_000;

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
        const { ready, checks } = await answer.json();
        const failed = ["store", "tasks", "lag"].filter((name) => checks?.[name] === false);
        return ready ? ["ready", "Ready"] : ["down", `Not ready${failed.length ? `: ${failed.join(", ")}` : ""}`];
    } catch {
        return ["down", "Not reached"];
    }
}

async function watchService() {
    const place = document.getElementById("service");
    const text = document.getElementById("service-text");
    let wake = () => {};
    for (const event of ["online", "offline"]) {
        addEventListener(event, () => wake());
    }
    for (;;) {
        if (!document.hidden) {
            const [state, said] = await readiness();
            if (text.textContent !== said) {
                place.dataset.state = state;
                text.textContent = said;
            }
        }
        await new Promise((resolve) => {
            wake = resolve;
            setTimeout(resolve, READY_MS);
        });
    }
}

themeSwitch();
keyButton();
watchService();
