// A "?" behind a word that says what it means: one bubble for the whole page, which Escape or a click elsewhere closes.

import { fill, h, placedAt } from "./dom.js";

const bubble = document.body.appendChild(h("div.bubble", { popover: "auto", tabindex: "-1", role: "note" }));
const EDGE = 12;
let openedAt = 0; // a scroll before the click, such as to the button in focus, is reported after it

/** The button; `meaning` is a sentence or two. */
export function what(word, meaning) {
    return h("button.what", { type: "button", "aria-label": `What is ${word}?`, data: { meaning } }, "?");
}

document.addEventListener("click", ({ target }) => {
    if (!target.matches(".what")) return;
    fill(bubble, target.dataset.meaning);
    bubble.showPopover();
    openedAt = scrollY;
    const { left, bottom } = target.getBoundingClientRect();
    const most = document.documentElement.clientWidth - bubble.offsetWidth - EDGE;
    placedAt(bubble, { left: Math.max(EDGE, Math.min(left - EDGE, most)), top: bottom + 6 });
    bubble.focus({ preventScroll: true }); // it is read out; closing it gives the focus back
});
addEventListener("scroll", () => scrollY !== openedAt && bubble.matches(":popover-open") && bubble.hidePopover());
