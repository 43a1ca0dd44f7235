// Text that can be copied: it stands before its button.

import { h } from "./dom.js";

const SAID_MS = 1500;

/** A button that copies the text before it. */
export function copyButton() {
    const button = h("button.button.small.copy", { type: "button" }, "Copy");
    copies(button);
    return button;
}

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
