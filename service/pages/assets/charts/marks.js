// What happened at a row, above a chart: a button for each mark, or one for several that stand too close. Labels never
// overlap: a mark takes one of two lanes, or joins its neighbour. Promotions have a lane of their own, above all.

import { h } from "../dom.js";

export const LANE = 24;
const LANES = 2;
const GAP = 6;
const LETTER = 6.4;
const FRAME = 24;
const PLURALS = { several: "marks", switch: "switches", configure: "changes" };

/**
 * @typedef {{x: number, kind: string, label: string}} Mark
 * @typedef {{marks: Mark[], kind: string, label: string, at: number, lane: number, left: number, width: number}} Chip
 */

/** Where the labels of marks go, these by x, rising: chips that do not overlap. `place` gives the position of an x. */
export function placed(marks, place, room) {
    const promoted = ({ kind }) => kind === "promotion";
    const above = laid(marks.filter(promoted), 1, place, room);
    const below = laid(marks.filter((mark) => !promoted(mark)), LANES, place, room);
    return [...above, ...below.map((chip) => ({ ...chip, lane: chip.lane + Math.min(1, above.length) }))];
}

function laid(marks, count, place, room) {
    const lanes = Array.from({ length: count }, () => []);
    const fits = (lane, chip) => !lane.length || lane.at(-1).left + lane.at(-1).width + GAP <= chip.left;
    for (const mark of marks) {
        let chip = sized([mark], place, room);
        let lane = lanes.find((own) => fits(own, chip));
        // The lane whose last chip is nearest takes the mark; a chip that has grown swallows what it now touches.
        lane ??= lanes.reduce((best, own) => (own.at(-1).at > best.at(-1).at ? own : best));
        while (!fits(lane, chip)) chip = sized([...lane.pop().marks, ...chip.marks], place, room);
        lane.push({ ...chip, lane: lanes.indexOf(lane) });
    }
    return lanes.flat();
}

function sized(marks, place, room) {
    const kind = marks.every((mark) => mark.kind === marks[0].kind) ? marks[0].kind : "several";
    const label = marks.length === 1 ? marks[0].label : `${marks.length} ${PLURALS[kind] ?? `${kind}s`}`;
    const width = label.length * LETTER + FRAME;
    const at = (place(marks[0].x) + place(marks.at(-1).x)) / 2;
    const left = Math.min(Math.max(at - width / 2, 0), Math.max(0, room - width));
    return { marks, kind, label, at, left, width };
}

/** The buttons of placed marks; `onPick` takes the marks of the button that was pressed, and the button. */
export function chipButtons(chips, onPick) {
    return chips.map(({ marks, kind, label, lane, left, width }) => {
        const rows = marks.map(({ x }) => x.toLocaleString("en"));
        const where = rows.length > 3 ? `rows ${rows[0]} to ${rows.at(-1)}` : `row ${rows.join(", ")}`;
        const places = marks.map(({ x }) => x).join(" ");
        const data = { kind, rows: places, key: `${places} ${label} ${lane}` };
        const on = { click: ({ currentTarget }) => onPick(marks, currentTarget) };
        const style = { left, top: LANE * lane, width };
        const how = { data, "aria-label": `${label}, ${where}: show what happened`, on, style };
        return h("button.chip", how, h("span.chip-dot", { "aria-hidden": "true" }), label);
    });
}
