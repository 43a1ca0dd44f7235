// How the page says things: names of scores, marks and events in words.

import { h } from "../dom.js";
import { clipped, labelText, number } from "../format.js";
import { what } from "../what.js";

/** Scores by their names in the API: what they are called. */
export const SCORES = {
    accuracy: "Accuracy",
    balanced_accuracy: "Balanced accuracy",
    kappa: "Kappa",
    kappa_temporal: "Kappa, temporal",
    roc_auc: "ROC AUC",
    average_precision: "Average precision",
    log_loss: "Log loss",
    brier: "Brier score",
    ece: "Calibration error",
    mse: "Mean squared error",
    mae: "Mean absolute error",
    median_ae: "Median absolute error",
    r2: "R²",
    bias: "Bias",
    unscored: "Unscored rows",
};

/** What they mean, by what they are called. */
const MEANINGS = {
    "Balanced accuracy": "The accuracy on each class, averaged: rare classes count as much as frequent ones.",
    Kappa: "Agreement with the labels beyond chance: 0 is chance, 1 is perfect.",
    "Kappa, temporal": "Kappa compared with repeating the last label: above 0, the model beats that.",
    "ROC AUC": "How well the probabilities rank the two classes: 0.5 is chance, 1 is perfect.",
    "Average precision": "Precision averaged over all recalls, for the second class; 1 is perfect.",
    "Log loss": "How much the labels surprised the model; 0 is best, and confident mistakes cost most.",
    "Brier score": "Mean squared error of the probabilities; 0 is best.",
    "Calibration error": "How far probabilities are from how often they come true, on average; 0 is best.",
    "R²": "The share of the labels’ variance that predictions explain: 1 is perfect, 0 is no better than the mean.",
    Bias: "The average error with its sign: 0 means that errors up and down cancel out.",
    "Unscored rows": "Rows for which the model could not predict anything yet, so they have no score.",
    Version: "The number of entries in the model’s log; every change to the model adds one.",
    Incarnation: "Identifies this model; a model that is deleted and created again gets another one.",
    "Learner’s state": "The memory that everything the model has learned takes.",
};

/** A name, with a "?" where it needs one. */
export function termed(name) {
    if (!MEANINGS[name]) return name;
    const last = name.lastIndexOf(" ") + 1; // "?" stays with the last word
    return [name.slice(0, last), h("span.unbroken", name.slice(last), what(name, MEANINGS[name]))];
}

/** Baselines by their names in the API. */
export const BASELINES = {
    no_change: "No change", majority: "Majority class", last_value: "Last value", served: "Your model",
};

/** The labels of a model, declared or learned, each once. */
export function labelsOf({ config, info }) {
    const all = [...(config.labels ?? []), ...(info.labels ?? [])];
    return [...new Map(all.map((label) => [String(label), label])).values()];
}

export const scoreOf = (task) => (task === "classification" ? "accuracy" : "mse");

const ACTIONS = { report: "reported", reset: "the learner was reset", forget: "the learner forgot most of its past" };
const STEPS = { begin: "begun", complete: "complete", abort: "aborted" };
const TESTS = { class_mean: "Feature means moved", error_rate: "Errors became more frequent" };

/** What a mark of the metrics says above a chart. */
export function markLabel(mark) {
    if (mark.kind === "switch") return `switch ${STEPS[mark.action] ?? mark.action}`;
    if (mark.kind === "promotion") return `promotion: ${clipped(mark.challenger, 14)}`;
    return mark.kind === "configure" ? "settings" : String(mark.kind);
}

const SENTENCES = {
    drift: ({ test, label, action }) => `${TESTS[test] ?? test}${inClass(label)}; ${ACTIONS[action] ?? action}.`,
    switch: ({ action }) => `A change of features was ${STEPS[action] ?? action}.`,
    reset: () => "The model was reset to its first state.",
    promotion: ({ by, challenger, algorithm }) => {
        const who = by === "auto" ? "automatically, as its interval rose above zero" : "on request";
        return `Challenger ${challenger} (${algorithm}) became the model, ${who}.`;
    },
    configure: ({ fields = [] }) => `Settings were changed: ${fields.join(", ")}.`,
    restore: () => "A snapshot was restored.",
    import: () => "A state was imported.",
};

/** What a mark of the metrics tells beside its row, in a sentence. */
export const markSentence = (mark) => SENTENCES[mark.kind]?.(mark) ?? String(mark.kind);

/** What a drift event found, in a sentence. */
export function eventSentence(event) {
    if (event.kind === "error_rate") {
        const [before, after] = [number(event.before), number(event.after)];
        const errors = inClass(event.class) ? `errors${inClass(event.class)}` : "large errors"; // of a regression
        return `The share of ${errors} rose from ${before} to ${after}.`;
    }
    const rows = event.kind === "unlabelled" ? " of unlabelled rows" : inClass(event.class);
    const [first, ...others] = event.features;
    if (!first) return `Features or predictions${rows} moved.`;
    const few = others.length < 3 ? others.map(({ name }) => name).join(" and ") : `${others.length} more features`;
    const also = others.length ? `; so did ${few}` : "";
    return `The mean of ${first.name}${rows} moved from ${number(first.before)} to ${number(first.after)}${also}.`;
}

const inClass = (label) => (label === null || label === undefined ? "" : ` in class ${labelText(label)}`);

export function actionOf(event) {
    const done = ACTIONS[event.action] ?? event.action;
    return event.held_back ? `${done}; held back by the cooldown` : done;
}

/** A declared feature, whole: bare names are numeric. */
export const featureOf = (feature) => (typeof feature === "string" ? { name: feature, type: "numeric" } : feature);
