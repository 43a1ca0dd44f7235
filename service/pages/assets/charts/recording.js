/**
 * Samples of what has no history of its own, for as long as the page is open: by row, bounded and evenly thinned.
 */
export class Recording {
    /** @param {number} [most] samples kept; at twice as many every other one goes */
    constructor(most = 256) {
        this.most = most;
        this.clear();
    }

    /**
     * Take a sample in; one at the same row replaces the last.
     *
     * @param {number} row where the model is; before the last one's where it has started again
     * @param {Object<string, number>} values by name
     */
    add(row, values) {
        const last = this.samples.at(-1);
        if (last && row < last.row) this.clear();
        if (row === last?.row) {
            last.values = values;
            return;
        }
        // the newest sample always stands last; it stays only if it is one of every `every`
        if (this.samples.at(-1)?.passing) this.samples.pop();
        this.samples.push({ row, values, passing: this.seen % this.every !== 0 });
        this.seen += 1;
        if (this.samples.length >= 2 * this.most) {
            this.samples = this.samples.filter((_, at) => at % 2 === 0);
            this.every *= 2;
        }
    }

    clear() {
        this.samples = [];
        this.every = 1;
        this.seen = 0;
    }

    /** Pairs of row and value of one name; null where there was none. */
    points(name) {
        return this.samples.map(({ row, values }) => [row, values[name] ?? null]);
    }
}
