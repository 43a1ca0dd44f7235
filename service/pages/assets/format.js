// Times and numbers as text. Scores and shares are numbers from 0 to 1, as in the API; percentages are for how much
// something is more or less than something else, and for the levels of intervals.

const UNITS = [[86_400, "day"], [3600, "h"], [60, "min"], [1, "s"]];
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const NONE = "–";

/** How long ago a time (RFC 3339) was, "12 s ago"; or, if it may be `ahead`, in how long it will be: "in 3 days". */
export function ago(time, ahead = false) {
    const seconds = (Date.now() - Date.parse(time)) / 1000;
    const size = ahead ? Math.abs(seconds) : seconds; // below 0 the clock here is wrong
    if (!Number.isFinite(size)) return NONE;
    if (size < 1.5) return "now";
    const [unit, name] = UNITS.find(([length]) => size >= length) ?? UNITS.at(-1);
    const count = Math.round(size / unit);
    const text = `${count} ${name}${name === "day" && count !== 1 ? "s" : ""}`;
    return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

/** A time (RFC 3339) as people of this place write it, to the second. */
export function when(time) {
    return new Date(time).toLocaleString("sv"); // Swedes write 2026-01-31 12:00:00
}

/** A part as a percentage, "87.3 %": with a narrow space that does not break. */
export const percent = (part, digits = 1) => `${(100 * part).toFixed(digits)}\u202f%`;

/** A share, or a score that is 1 at most: near 1 with more decimals, so that what is not 1 is not shown as 1. */
export function share(value) {
    if (!Number.isFinite(value)) return NONE;
    const lacking = 1 - value;
    if (lacking > 0 && lacking < 5e-7) return ">\u20090.999999";
    const digits = lacking > 0 ? Math.min(6, Math.max(3, Math.floor(-Math.log10(lacking)) + 1)) : 3;
    return value.toFixed(digits);
}

/** A whole number with its thousands set apart. */
export const whole = (value) => (Number.isFinite(value) ? WHOLE.format(value) : NONE);

/** A count: "1,204"; from a hundred thousand on "120.4K". */
export const count = (value) => (Math.abs(value) >= 1e5 ? SHORT.format(value) : whole(value));

export const rowsText = (rows) => `${count(rows)} ${rows === 1 ? "row" : "rows"}`;

/** A number to three or four figures, whatever its size: "0.0123", "12.3", "4,810", "3.1e+12". */
export function figure(value) {
    if (!Number.isFinite(value)) return NONE;
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size >= 1e7 || size < 1e-4) return value.toExponential(1);
    return size >= 999.5 ? WHOLE.format(value) : String(Number(value.toPrecision(3)));
}

/** A number with so many decimals below 10, fewer above: for columns, where decimals stand below each other. */
export function number(value, digits = 3) {
    if (!Number.isFinite(value)) return NONE;
    const size = Math.abs(value);
    if (size === 0) return "0"; // -0 as well
    if ((Number.isInteger(value) && size < 1e15) || (size >= 1000 && size < 1e7)) return WHOLE.format(value);
    if (size >= 1e7) return value.toExponential(2);
    if (size < 0.5 * 10 ** -digits) return value.toExponential(1);
    return value.toFixed(Math.min(digits, size >= 100 ? 1 : size >= 10 ? 2 : digits));
}

/** A number with its sign; a real minus. */
export function signed(value) {
    if (!Number.isFinite(value)) return NONE;
    return `${value > 0 ? "+" : value < 0 ? "−" : ""}${number(Math.abs(value))}`;
}

export function bytes(size) {
    if (size < 1024) return `${size} B`;
    return size < 1024 * 1024 ? `${(size / 1024).toFixed(1)} KiB` : `${(size / 1024 / 1024).toFixed(1)} MiB`;
}

/** A label as text; one that is empty is seen. */
export const labelText = (label) => (label === "" ? "(empty)" : String(label));

/** Text cut to a length, with an ellipsis. */
export function clipped(text, most) {
    const all = String(text);
    return all.length > most ? `${all.slice(0, most - 1)}…` : all;
}
