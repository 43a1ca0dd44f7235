/**
 * Series thinned out evenly: every k-th point, k a power of two, and the last one.
 *
 * A chart of few pixels shows as much with fewer points. Every k-th point is what the service keeps itself where a
 * history grows too long, so what is seen is what was stored, at even distances, and no stretch is shown in more detail
 * than another. Powers of two keep the same points while a series grows. Peaks between kept points are not shown; the
 * table behind the chart has all points.
 */

/**
 * Which of `length` points are shown where there is room for `most`.
 *
 * @param {number} length
 * @param {number} most at least 2
 * @returns {number[]} rising indices
 */
export function thinned(length, most) {
    let every = 1;
    while (length / every > most) every *= 2;
    const kept = [];
    for (let at = 0; at < length; at += every) kept.push(at);
    if (length && kept[kept.length - 1] !== length - 1) kept.push(length - 1);
    return kept;
}

/**
 * Samples of what has no history of its own, for as long as the page is open: by row, bounded and evenly thinned.
 */
export class Recording {
    /**
     * @param {number} [most] samples kept; at twice as many every other one goes
     */
    constructor(most = 256) {
        this.most = most;
        this.every = 1;
        this.samples = [];
        this.seen = 0;
    }

    /**
     * Take a sample in; one at the same row replaces the last.
     *
     * @param {number} row where the model is
     * @param {Object<string, number>} values by name
     */
    add(row, values) {
        const last = this.samples[this.samples.length - 1];
        if (last && row < last.row) this.clear();
        if (last && row === last.row) {
            last.values = values;
            return;
        }
        // the newest sample always stands last; it stays only if it is one of every `every`
        if (last && last.passing) this.samples.pop();
        this.samples.push({ row, values, passing: this.seen % this.every !== 0 });
        this.seen += 1;
        if (this.samples.length >= 2 * this.most) {
            this.samples = this.samples.filter((_, at) => at % 2 === 0);
            this.every *= 2;
        }
    }

    /** Forget everything: the model has started again. */
    clear() {
        this.samples = [];
        this.every = 1;
        this.seen = 0;
    }

    /**
     * The samples of one name.
     *
     * @param {string} name
     * @returns {Array<[number, number|null]>} pairs of row and value; null where there was none
     */
    points(name) {
        return this.samples.map(({ row, values }) => [row, values[name] ?? null]);
    }
}
