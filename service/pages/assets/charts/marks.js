/**
 * What happened at a row, above a chart: a button for each mark, or one for several that stand too close to be told
 * apart. Labels never overlap: a mark finds room in one of two lanes, or joins its neighbour.
 */

import { h } from "../dom.js";

const LANES = 2;
const GAP = 6;
const LETTER = 6.4;
const FRAME = 24;

/**
 * A mark.
 *
 * @typedef {{x: number, kind: string, label: string}} Mark
 * @typedef {{marks: Mark[], kind: string, label: string, at: number, lane: number, left: number, width: number}} Chip
 */

/**
 * Where the labels of marks go.
 *
 * @param {Mark[]} marks by x, rising
 * @param {function(number): number} place position of an x, in pixels
 * @param {number} left
 * @param {number} right the room there is, in pixels
 * @returns {Chip[]} none of which overlaps another one
 */
export function placed(marks, place, left, right) {
    const lanes = Array.from({ length: LANES }, () => []);
    for (const mark of marks) {
        const chip = sized({ marks: [mark], kind: mark.kind, at: place(mark.x) }, left, right);
        const lane = lanes.findIndex((own) => !own.length || end(own.at(-1)) + GAP <= chip.left);
        if (lane >= 0) lanes[lane].push({ ...chip, lane });
        else join(lanes, mark, place, left, right);
    }
    return lanes.flat();
}

/** The lane whose last chip is nearest takes the mark; a chip that has grown swallows what it now touches. */
function join(lanes, mark, place, left, right) {
    const lane = lanes.reduce((best, own, at) => (own.at(-1).at > lanes[best].at(-1).at ? at : best), 0);
    let last = lanes[lane].pop();
    let grown = merged(last, [mark], place, left, right);
    while (lanes[lane].length && end(lanes[lane].at(-1)) + GAP > grown.left) {
        last = lanes[lane].pop();
        grown = merged(grown, last.marks, place, left, right);
    }
    lanes[lane].push({ ...grown, lane });
}

function merged(chip, marks, place, left, right) {
    const all = [...chip.marks, ...marks].sort((one, other) => one.x - other.x);
    const kind = all.every((mark) => mark.kind === all[0].kind) ? all[0].kind : "several";
    return sized({ marks: all, kind, at: (place(all[0].x) + place(all.at(-1).x)) / 2 }, left, right);
}

function sized(chip, left, right) {
    const { marks, kind } = chip;
    const label =
        marks.length === 1 ? marks[0].label : `${marks.length} ${kind === "several" ? "marks" : plural(kind)}`;
    const width = label.length * LETTER + FRAME;
    const start = Math.min(Math.max(chip.at - width / 2, left), Math.max(left, right - width));
    return { ...chip, label, width, left: start };
}

function plural(kind) {
    return kind === "switch" ? "switches" : kind === "configure" ? "changes" : `${kind}s`;
}

function end(chip) {
    return chip.left + chip.width;
}

/**
 * The buttons of placed marks.
 *
 * @param {Chip[]} chips
 * @param {function(Mark[], HTMLElement): void} onPick called with the marks of the button that was pressed
 * @returns {HTMLElement[]}
 */
export function chipButtons(chips, onPick) {
    return chips.map((chip) => {
        const places = chip.marks.map((mark) => mark.x).join(" ");
        const rows = chip.marks.map((mark) => mark.x.toLocaleString("en"));
        const where = rows.length > 3 ? `rows ${rows[0]} to ${rows.at(-1)}` : `row ${rows.join(", ")}`;
        const button = h("button.chip",
            {
                type: "button",
                data: { kind: chip.kind, rows: places, key: `${places} ${chip.label}` },
                "aria-label": `${chip.label}, ${where}: show what happened`,
                on: { click: () => onPick(chip.marks, button) },
            },
            h("span.chip-dot", { "aria-hidden": "true" }),
            chip.label,
        );
        button.style.left = `${chip.left}px`;
        button.style.top = `${chip.lane * 24}px`;
        button.style.width = `${chip.width}px`;
        return button;
    });
}
