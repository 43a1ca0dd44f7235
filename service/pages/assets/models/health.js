/**
 * The service in a line of figures.
 */

import { whole } from "../format.js";
import { h } from "../dom.js";
import { speedText } from "./row.js";

const DURABILITY = { always: "With every write", everysec: "Every second" };
const FIGURES = [
    ["Service", ({ ready }) => (ready ? "Ready" : "Not ready"), ({ ready }) => !ready],
    ["Store", ({ store }) => capital(store), ({ store }) => store !== "up"],
    ["Written to disk", ({ durability }) => DURABILITY[durability] ?? capital(durability), () => false],
    ["Lag", ({ lag }) => `${whole(lag)} ${lag === 1 ? "entry" : "entries"}`, ({ checks }) => checks?.lag === false],
    ["Rows/s", ({ rows_per_s: speed }) => speedText(speed), () => false],
];

function capital(word) {
    return word.charAt(0).toUpperCase() + word.slice(1);
}

export class Health {
    /** @param {HTMLElement} place a dl */
    constructor(place) {
        this.values = FIGURES.map(() => h("dd", "–"));
        place.append(...FIGURES.map(([name], at) => h("div", h("dt", name), this.values[at])));
    }

    /** @param {object} service what /readyz tells, and rows_per_s */
    update(service) {
        for (const [at, [, text, wrong]] of FIGURES.entries()) {
            const value = this.values[at];
            const said = text(service);
            if (value.textContent !== said) value.textContent = said;
            value.className = wrong(service) ? "bad" : "";
        }
    }
}
