// The API key of this tab, and the dialog that asks for it.

const NAME = "onepass.key";
let asking = null;

/** The key, or null where none was given. */
export function key() {
    return sessionStorage.getItem(NAME);
}

/** Header fields that send the key. */
export function keyHeaders() {
    const secret = key();
    return secret === null ? {} : { Authorization: `Bearer ${secret}` };
}

function keep(secret) {
    if (secret === null) {
        sessionStorage.removeItem(NAME);
    } else {
        sessionStorage.setItem(NAME, secret);
    }
    document.dispatchEvent(new CustomEvent("onepass:key"));
}

/**
 * Ask for a key; everybody who asks while the dialog is open waits for the same answer.
 * @param {string} reason said above the field
 * @returns {Promise<boolean>} whether there is another key than before
 */
export function askForKey(reason) {
    asking ??= open(reason).finally(() => { asking = null; });
    return asking;
}

function open(reason) {
    const dialog = document.getElementById("key-dialog");
    const input = document.getElementById("key-input");
    const forget = document.getElementById("key-forget");
    document.getElementById("key-reason").textContent = reason;
    input.value = "";
    forget.hidden = key() === null;
    dialog.showModal();
    input.focus();
    return new Promise((resolve) => {
        const over = new AbortController();
        const on = (target, event, handler) => target.addEventListener(event, handler, { signal: over.signal });
        const close = (changed) => {
            over.abort();
            dialog.close();
            resolve(changed);
        };
        on(dialog.querySelector("form"), "submit", (event) => {
            event.preventDefault();
            keep(input.value.trim());
            close(true);
        });
        on(forget, "click", () => { keep(null); close(true); });
        on(document.getElementById("key-cancel"), "click", () => close(false));
        on(dialog, "cancel", (event) => { event.preventDefault(); close(false); });
    });
}
