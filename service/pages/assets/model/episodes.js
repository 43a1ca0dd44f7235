/**
 * Drifts that several learners have found: a model and its challengers each test the same rows by themselves.
 */

const EPISODE_ROWS = 1000; // as the service has it where a watch does not say

/**
 * Events by drift: at most one of each learner, all within the rows of an episode, as alarms of one learner are joined.
 *
 * @param {Object[]} events of GET /models/NAME/drift
 * @param {number|undefined} rows of an episode
 * @returns {Object[][]} the newest drift first, the events of each in the order of their rows
 */
export function episodes(events, rows = EPISODE_ROWS) {
    const found = [];
    const ordered = [...events].sort((one, other) => one.row - other.row || one.version - other.version);
    for (const event of ordered) {
        const known = found.findLast((episode) => belongs(event, episode, rows));
        if (known) known.push(event);
        else found.push([event]);
    }
    return found.reverse();
}

function belongs(event, episode, rows) {
    const known = episode.some(({ challenger }) => challenger === event.challenger);
    return !known && event.row - episode[0].row < rows;
}

/**
 * The event that stands for a drift: the model's own, else the first one.
 *
 * @param {Object[]} episode
 * @returns {Object}
 */
export function leading(episode) {
    return episode.find(({ challenger }) => challenger === null) ?? episode[0];
}

/** @param {Object} event @returns {string} who has found it: "challenger dfop" */
export function finder({ challenger }) {
    return challenger === null ? "the model" : `challenger ${challenger}`;
}

/**
 * Who has found a drift: "the model, dfop and auto (row 1,171)"; rows are named where they are not the leading one's.
 *
 * @param {Object[]} episode
 * @returns {string}
 */
export function finders(episode) {
    const lead = leading(episode);
    const names = [lead, ...episode.filter((event) => event !== lead)].map((event) =>
        event.row === lead.row ? finder(event) : `${finder(event)} (row ${event.row.toLocaleString("en")})`,
    );
    return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0];
}
