/**
 * Numbers as positions and as text: scales, ticks that people would choose, and one way to write a number.
 */

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/**
 * A number as text, to about three figures: "0.872", "12.4", "1,204", "3.1e-7"; an en dash where there is none.
 *
 * @param {number|null|undefined} value
 * @param {number} [digits] decimals below 10
 * @returns {string}
 */
export function number(value, digits = 3) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size === 0) return "0"; // -0 as well
    if (Number.isInteger(value) && size < 1e15) return WHOLE.format(value);
    if (size >= 1e7) return value.toExponential(2);
    if (size >= 1000) return WHOLE.format(value);
    if (size >= 100) return value.toFixed(Math.min(1, digits));
    if (size >= 10) return value.toFixed(Math.min(2, digits));
    if (size >= 0.5 * 10 ** -digits) return value.toFixed(digits);
    return value.toExponential(1);
}

/**
 * A count as text: "1,204"; from a hundred thousand on "120.4K".
 *
 * @param {number|null|undefined} value
 * @returns {string}
 */
export function count(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    return Math.abs(value) >= 1e5 ? SHORT.format(value) : WHOLE.format(value);
}

/**
 * Rows as text, with their noun.
 *
 * @param {number} rows
 * @returns {string}
 */
export function rowsText(rows) {
    return `${count(rows)} ${rows === 1 ? "row" : "rows"}`;
}

/**
 * Ticks at 1, 2 or 5 times a power of ten.
 *
 * @param {number} low
 * @param {number} high
 * @param {number} most about how many there may be
 * @returns {number[]} rising, all within low and high
 */
export function ticks(low, high, most) {
    const span = high - low;
    if (!(span > 0)) return [low];
    const rough = span / Math.max(1, most);
    const power = 10 ** Math.floor(Math.log10(rough));
    const size = rough / power;
    const step = power * (size >= Math.sqrt(50) ? 10 : size >= Math.sqrt(10) ? 5 : size >= Math.sqrt(2) ? 2 : 1);
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
}

/**
 * Ticks of a logarithmic axis: powers of ten, with 2 and 5 where there are few of them.
 *
 * @param {number} low above 0
 * @param {number} high
 * @param {number} most about how many there may be
 * @returns {number[]}
 */
export function logTicks(low, high, most) {
    const decades = Math.log10(high / low);
    const between = decades < 1 ? [1, 2, 3, 5, 7] : decades < 2.5 ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil((decades * between.length) / Math.max(1, most * 1.5)));
    const found = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
        if (between.length === 1 && power % every) continue;
        for (const factor of between) {
            const value = Number((factor * 10 ** power).toPrecision(6));
            if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
        }
    }
    return found.length > 1 ? found : ticks(low, high, most);
}

/**
 * A scale from values to positions.
 *
 * @param {number} low the value at `from`
 * @param {number} high the value at `to`
 * @param {number} from a position
 * @param {number} to a position
 * @param {boolean} [log] whether equal ratios are equal distances
 * @returns {function(number): number}
 */
export function scale(low, high, from, to, log = false) {
    const place = log ? (value) => Math.log10(Math.max(value, low)) : (value) => value;
    const start = place(low);
    const span = place(high) - start || 1;
    return (value) => from + ((place(value) - start) / span) * (to - from);
}

/**
 * The range of an axis: that of the values, a little wider, within bounds that the quantity has.
 *
 * @param {number[]} values
 * @param {{bounds?: [number, number], zero?: boolean, log?: boolean, least?: number}} [given] `bounds`: of the
 *     quantity; `zero`: whether 0 belongs to the axis; `least`: the smallest span
 * @returns {[number, number]}
 */
export function range(values, { bounds = [-Infinity, Infinity], zero = false, log = false, least = 0 } = {}) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
        if (!Number.isFinite(value) || (log && value <= 0)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
    }
    if (low > high) return log ? [0.1, 1] : bounds.every(Number.isFinite) ? bounds : [0, 1];
    if (log) return [low / 1.15, high === low ? low * 1.5 : high * 1.15];
    if (zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
    const lacking = Math.max(0, least - (high - low)) / 2;
    const pad = (high - low) * 0.06 + lacking || Math.abs(high) * 0.1 || 1;
    const wide = [zero && low === 0 ? 0 : low - pad, zero && high === 0 ? 0 : high + pad];
    return [Math.max(bounds[0], wide[0]), Math.min(bounds[1], wide[1])];
}
