/**
 * The rows of the list. Rows stay where they are while somebody reads them: values change in place, a model that comes
 * takes the place of one that has gone or stands at the end, and the order is made anew when it is asked for.
 */

import { Row } from "./row.js";

export class List {
    /** @param {HTMLElement} body a tbody */
    constructor(body) {
        this.body = body;
        this.rows = new Map(); // by name, in no order
        this.shown = []; // names, as they stand
        this.wanted = []; // names, in the service's order
    }

    /**
     * Take in the page of models as it is now.
     * @param {object[]} models in the service's order
     * @param {boolean} anew in this order, whatever was shown
     * @returns {string[]} what has happened, in words
     */
    update(models, anew) {
        this.wanted = models.map(({ name }) => name);
        const news = [];
        for (const model of models) {
            const row = this.rows.get(model.name);
            if (row) {
                news.push(...row.update(model));
            } else {
                this.rows.set(model.name, new Row(model));
            }
        }
        this.#place(anew ? this.wanted : kept(this.shown, this.wanted));
        return news;
    }

    /** Whether rows stand in another order than the service's. */
    get unsorted() {
        return this.shown.some((name, at) => name !== this.wanted[at]);
    }

    /** Put the rows into the service's order. */
    sort() {
        this.#place(this.wanted);
    }

    /** Say again how long ago things were. */
    tick() {
        for (const row of this.rows.values()) row.tick();
    }

    #place(names) {
        const elements = names.map((name) => this.rows.get(name).element);
        for (const [at, element] of elements.entries()) {
            if (this.body.children[at] !== element) this.body.insertBefore(element, this.body.children[at] ?? null);
        }
        while (this.body.children.length > elements.length) this.body.lastChild.remove();
        const present = new Set(names);
        for (const name of this.rows.keys()) {
            if (!present.has(name)) this.rows.delete(name);
        }
        this.shown = names;
    }
}

/**
 * An order in which nothing moves that can stay.
 * @param {string[]} shown as the rows stand
 * @param {string[]} wanted which rows there are to be
 * @returns {string[]}
 */
export function kept(shown, wanted) {
    const staying = new Set(wanted);
    const before = new Set(shown);
    const coming = wanted.filter((name) => !before.has(name));
    const filled = shown.map((name) => (staying.has(name) ? name : coming.shift()));
    return [...filled.filter((name) => name !== undefined), ...coming];
}
