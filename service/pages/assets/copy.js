// Calls that can be copied, and that name the service as it is reached from here.

import { root } from "./api.js";
import { keyHeader } from "./key.js";

const SAID_MS = 1500;
const SHOWN = /(?:http:\/\/)?localhost:8000/g;

/** The service's address as a call needs it: without the slash at its end. */
const here = root.href.replace(/\/$/, "");

/** Let a button copy the text before it, or select it: over plain HTTP only this machine's own address may copy. */
export function copies(button) {
    button.addEventListener("click", async () => {
        const text = button.previousElementSibling;
        try {
            await navigator.clipboard.writeText(text.textContent);
            button.textContent = "Copied";
        } catch {
            getSelection().selectAllChildren(text);
            button.textContent = "Selected";
        }
        setTimeout(() => { button.textContent = "Copy"; }, SAID_MS);
    });
}

/** Make the calls within an element work here, with the key's header where this tab uses one. */
export function callable(element) {
    for (const call of element.querySelectorAll(".code")) {
        const [text, button] = [call.querySelector("code"), call.querySelector(".copy")];
        text.textContent = text.textContent.replace(SHOWN, here).replace(/^curl/gm, `curl${keyHeader()}`);
        copies(button);
        button.hidden = false;
    }
    return element;
}
