/**
 * How the page says things: times, names of scores, marks and events in words.
 */

import { number } from "../charts.js";

export { rowsText } from "../charts.js";

/**
 * A time as people of this place write it, to the second.
 *
 * @param {string} time RFC 3339
 * @returns {string}
 */
export function when(time) {
    const date = new Date(time);
    const pad = (value) => String(value).padStart(2, "0");
    const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
    return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/**
 * Bytes as text.
 *
 * @param {number} size
 * @returns {string}
 */
export function bytes(size) {
    if (size < 1024) return `${size} B`;
    return size < 1024 * 1024 ? `${(size / 1024).toFixed(1)} KiB` : `${(size / 1024 / 1024).toFixed(1)} MiB`;
}

/** Scores by their names in the API: what they are called, and whether more is better. */
export const SCORES = {
    accuracy: { name: "Accuracy", better: 1 },
    balanced_accuracy: { name: "Balanced accuracy", better: 1 },
    kappa: { name: "Kappa", better: 1 },
    kappa_temporal: { name: "Kappa, temporal", better: 1 },
    roc_auc: { name: "ROC AUC", better: 1 },
    average_precision: { name: "Average precision", better: 1 },
    log_loss: { name: "Log loss", better: -1 },
    brier: { name: "Brier score", better: -1 },
    ece: { name: "Calibration error", better: -1 },
    mse: { name: "Mean squared error", better: -1 },
    mae: { name: "Mean absolute error", better: -1 },
    median_ae: { name: "Median absolute error", better: -1 },
    r2: { name: "R²", better: 1 },
    bias: { name: "Bias", better: 0 },
    unscored: { name: "Unscored rows", better: 0 },
};

/** Baselines by their names in the API. */
export const BASELINES = {
    no_change: "No change",
    majority: "Majority class",
    last_value: "Last value",
};

const ACTIONS = {
    report: "reported",
    reset: "the learner started again",
    forget: "the learner forgot most of its past",
};
const STEPS = { begin: "begun", complete: "complete", abort: "aborted" };

/**
 * What a mark above a chart says.
 *
 * @param {Object} mark of the metrics
 * @returns {string}
 */
export function markLabel(mark) {
    if (mark.kind === "switch") return `switch ${STEPS[mark.action] ?? mark.action}`;
    if (mark.kind === "promotion") return `promotion: ${clipped(mark.challenger, 14)}`;
    if (mark.kind === "configure") return "settings";
    return String(mark.kind);
}

/**
 * What a mark tells beside its row, in a sentence.
 *
 * @param {Object} mark of the metrics
 * @returns {string}
 */
export function markSentence(mark) {
    if (mark.kind === "drift") {
        const test = { class_mean: "Feature means have moved", error_rate: "Errors have become more frequent" }[
            mark.test
        ];
        const label = mark.label === null || mark.label === undefined ? "" : ` in class ${mark.label}`;
        return `${test ?? mark.test}${label}; ${ACTIONS[mark.action] ?? mark.action}.`;
    }
    if (mark.kind === "switch") return `A change of features was ${STEPS[mark.action] ?? mark.action}.`;
    if (mark.kind === "reset") return "The model was set back to its first state.";
    if (mark.kind === "promotion") {
        const who = mark.by === "auto" ? "by itself, as its interval left zero" : "by a request";
        return `Challenger ${mark.challenger} (${mark.algorithm}) became the model, ${who}.`;
    }
    if (mark.kind === "configure") return `Settings were changed: ${(mark.fields ?? []).join(", ")}.`;
    if (mark.kind === "restore") return "The state of a snapshot was restored.";
    if (mark.kind === "import") return "A state was imported.";
    return String(mark.kind);
}

/**
 * What a drift event found, in a sentence.
 *
 * @param {Object} event of GET /models/NAME/drift
 * @returns {string}
 */
export function eventSentence(event) {
    const label = event.class === null || event.class === undefined ? "" : ` in class ${event.class}`;
    if (event.kind === "error_rate") {
        return `The share of errors${label} rose from ${number(event.before)} to ${number(event.after)}.`;
    }
    if (event.kind === "unlabelled") return "Features or predictions of rows without labels have moved.";
    const moved = event.features.length;
    return `The means of ${moved} ${moved === 1 ? "feature" : "features"}${label} have moved.`;
}

/** What was done upon an event. */
export function actionOf(event) {
    const done = ACTIONS[event.action] ?? event.action;
    return event.held_back ? `${done}; held back by the cooldown` : done;
}

/** Text cut to a length, with an ellipsis. */
export function clipped(text, most) {
    const whole = String(text);
    return whole.length > most ? `${whole.slice(0, most - 1)}…` : whole;
}

/**
 * A declared feature, whole: bare names are numeric.
 *
 * @param {string|Object} feature of the configuration
 * @returns {Object}
 */
export function featureOf(feature) {
    return typeof feature === "string" ? { name: feature, type: "numeric" } : feature;
}
