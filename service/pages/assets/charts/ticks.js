// The ticks of an axis of values, whatever their size: uPlot has none above 1e17, and odd ones on logarithmic axes.

import { figure } from "../format.js";

const ROOM = 44;
const DIGITS_MAX = 6;
const [WIDTH_MIN, LETTER, GAP] = [46, 6.9, 12];

/** An axis of values, as uPlot takes it. */
export const valueTicks = (log) => ({
    incrs: [Infinity], // of uPlot's own ticks, which `splits` replaces
    splits: (plot, _, low, high) => (log ? powers : steps)(low, high, Math.floor(plot.height / ROOM)),
    filter: (_, ticks) => ticks,
    values: (_, ticks) => tickTexts(ticks, log),
    size: (_, texts) => Math.max(WIDTH_MIN, ...(texts ?? []).map(({ length }) => GAP + LETTER * length)),
});

/** Round numbers from `low` to `high` at equal steps, `most` of them or one more. */
export function steps(low, high, most) {
    const least = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = power * [1, 2, 5, 10].find((own) => own * power >= least);
    const first = Math.ceil(low / step);
    const length = Math.floor(high / step) - first + 1;
    return Array.from({ length }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

/** Powers of ten from `low` to `high`, with twice and five times each where these are few; steps within one. */
export function powers(low, high, most) {
    const [from, to] = [Math.log10(low), Math.log10(high)];
    if (to - from < 1) return steps(low, high, most);
    const leading = to - from > most / 2 ? [1] : [1, 2, 5];
    const exponents = steps(Math.floor(from), Math.ceil(to), most).filter(Number.isInteger);
    const ticks = exponents.flatMap((own) => leading.map((digit) => Number(`${digit}e${own}`)));
    return ticks.filter((tick) => tick >= low && tick <= high);
}

/** Ticks as text: steps with the decimals that they need, powers with none to spare. */
export function tickTexts(ticks, log) {
    const digits = log ? 0 : -Math.floor(Math.log10(ticks[1] - ticks[0]) + 1e-9);
    const exact = (tick) => digits > 0 && digits <= DIGITS_MAX && Number(tick.toFixed(digits)) === tick;
    return ticks.map((tick) => (exact(tick) ? tick.toFixed(digits) : figure(tick)));
}
