/**
 * One of a few, as a group of buttons.
 */

import { fill, h } from "../dom.js";

/**
 * A choice.
 *
 * @param {string} name of the group
 * @param {Array<[string, string]>} options pairs of key and label
 * @param {function(string): void} onPick
 * @returns {{element: HTMLElement, offer: function(Array<[string, string]>|null, string): void}} `offer` shows other
 *     options, or none others, and which of them is picked
 */
export function choice(name, options, onPick) {
    const element = h("div.choice", { role: "group", "aria-label": name });
    let written = null;
    const offer = (others, picked) => {
        const list = others ?? options;
        const text = JSON.stringify(list);
        if (text !== written) {
            written = text;
            const button = ([key, label]) =>
                h("button", { type: "button", data: { key }, on: { click: () => onPick(key) } }, label);
            fill(element, list.map(button));
        }
        for (const own of element.children) own.setAttribute("aria-pressed", String(own.dataset.key === picked));
    };
    offer(options, options[0]?.[0]);
    return { element, offer };
}
