/**
 * Times and numbers as text. Scores and shares are numbers from 0 to 1, as in the API; percentages are for how much
 * something is more or less than something else, and for the levels of intervals.
 */

const UNITS = [[86_400, "day"], [3600, "h"], [60, "min"], [1, "s"]];

/**
 * How long ago a time was, or in how long it will be: "12 s ago", "in 3 days".
 *
 * @param {string} time RFC 3339
 * @returns {string}
 */
export function ago(time) {
    const seconds = (Date.now() - Date.parse(time)) / 1000;
    const size = Math.abs(seconds);
    if (!Number.isFinite(size)) return "–";
    if (size < 1.5) return "now";
    const [unit, name] = UNITS.find(([length]) => size >= length) ?? UNITS.at(-1);
    const whole = Math.round(size / unit);
    const text = `${whole} ${name}${name === "day" && whole !== 1 ? "s" : ""}`;
    return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

/**
 * A part as a percentage: "87.3 %"; with a narrow space that does not break.
 *
 * @param {number} part
 * @param {number} [digits] decimals
 * @returns {string}
 */
export function percent(part, digits = 1) {
    return `${(100 * part).toFixed(digits)}\u202f%`;
}

/**
 * A share, or a score that is 1 at most: "0.873"; near 1 with more decimals, so that what is not 1 is not shown as 1.
 *
 * @param {number|null|undefined} value
 * @returns {string}
 */
export function share(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const lacking = 1 - value;
    if (lacking > 0 && lacking < 5e-7) return ">\u20090.999999";
    const digits = lacking > 0 ? Math.min(6, Math.max(3, Math.floor(-Math.log10(lacking)) + 1)) : 3;
    return value.toFixed(digits);
}

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/**
 * A whole number with its thousands set apart.
 *
 * @param {number|null|undefined} value
 * @returns {string}
 */
export function whole(value) {
    return Number.isFinite(value) ? WHOLE.format(value) : "–";
}

/**
 * A number to three or four figures, whatever its size: "0.0123", "12.3", "4,810", "3.1e+12".
 *
 * @param {number|null|undefined} value
 * @returns {string}
 */
export function figure(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size >= 1e7 || size < 1e-4) return value.toExponential(1);
    return size >= 1000 ? WHOLE.format(value) : String(Number(value.toPrecision(3)));
}
