// The API key of this tab, and the dialog that asks for it.

import { byId } from "./dom.js";

const NAME = "onepass.key";
const at = (id) => byId(`key-${id}`);
let asking = null;

/** The key, or null where none was given. */
export const key = () => sessionStorage.getItem(NAME);

function keep(secret) {
    if (secret === null) sessionStorage.removeItem(NAME);
    else sessionStorage.setItem(NAME, secret);
    document.dispatchEvent(new CustomEvent("onepass:key"));
}

/** Ask for a key, once for all who ask meanwhile; resolves to whether there is another key than before. */
export function askForKey(reason) {
    asking ??= open(reason).finally(() => { asking = null; });
    return asking;
}

function open(reason) {
    at("reason").textContent = reason;
    at("input").value = "";
    at("forget").hidden = key() === null;
    at("dialog").showModal();
    at("input").focus();
    return new Promise((resolve) => {
        const over = new AbortController();
        const on = (id, event, changed, secret = () => null) => {
            const handler = (happened) => {
                happened.preventDefault();
                over.abort();
                at("dialog").close();
                if (changed) keep(secret());
                resolve(changed);
            };
            at(id).addEventListener(event, handler, { signal: over.signal });
        };
        on("form", "submit", true, () => at("input").value.trim());
        on("forget", "click", true);
        on("cancel", "click", false);
        on("dialog", "cancel", false);
    });
}
