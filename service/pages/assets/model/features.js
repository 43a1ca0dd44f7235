/**
 * Features: their kinds, the weights of linear models, what the last drifts have moved, and where a change of features
 * stands.
 */

import { json } from "../api.js";
import { Frame, number, numbersBy, scrolled, tableOf } from "../charts.js";
import { fact, fill, h, patch } from "../dom.js";
import { SHARED } from "./documents.js";
import { featureOf, rowsText } from "./words.js";

const SHOWN_MAX = 60;
const WEIGHTS_MS = 5000;
const EPISODES = 5;
/** Algorithms that have no weights to show; of others that have none the service says so. */
const NOT_LINEAR = new Set(["auto", "vigo", "vigod", "vigow", "ga2m"]);
const NO_WEIGHTS = "This learner is not linear in the features: it has no weights to show.";

/**
 * Fill the part of features.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function features(model) {
    const place = document.getElementById("features-inside");
    const change = h("div.change", { hidden: true });
    const frame = new Frame({
        title: "Features in use",
        plain: true,
        file: `${model.name}-features`,
        numbers: () => numbersOf(rowsOf(model.docs, weights.found)),
    });
    const draw = () => {
        const { features: shown, model: own } = model.docs;
        if (!shown || !own) return;
        const rows = rowsOf(model.docs, weights.found);
        frame.note(weights.note);
        patch(frame.body, rows.length ? table(rows, weights.found) : h("p.quiet", nothing(own)));
        frame.refreshTable();
    };
    const weights = new WeightsReader(model, draw);
    fill(place, change, frame.element);
    model.when(["features"], ({ features: shown }) => {
        patch(change, changeOf(shown));
        change.hidden = shown.phase === "steady";
    });
    model.when(["model"], ({ model: own }) => weights.wanted(own));
    model.when(["features", "model", "drift"], draw);
}

function nothing({ config }) {
    if (config.algorithm === "sparse_dfop") return "Rows hold any names; no list of them is kept.";
    return "The first feedback row fixes the features.";
}

// ------------------------------------------------------------------------------------------------ weights

/** Reads GET /weights while the page shows it: at most every five seconds, and only for versions it has not seen. */
class WeightsReader {
    constructor(model, changed) {
        this.model = model;
        this.changed = changed;
        this.found = null;
        this.note = "";
        this.version = null;
        this.waiting = false;
        this.algorithm = null;
    }

    wanted({ version, incarnation, config, info }) {
        const own = `${incarnation} ${version}`;
        if (this.algorithm !== config.algorithm) this.never = null; // a promoted challenger may have weights
        this.algorithm = config.algorithm;
        if (this.waiting || own === this.version || this.never === incarnation) return;
        if (config.algorithm === "sparse_dfop" || !info.features?.length) return;
        if (NOT_LINEAR.has(config.algorithm) || config.params?.random_features) {
            this.note = NO_WEIGHTS;
            this.never = incarnation;
            return;
        }
        this.version = own;
        this.waiting = true;
        this.read(incarnation).finally(() => {
            setTimeout(() => {
                this.waiting = false;
                if (this.model.docs.model) this.wanted(this.model.docs.model);
            }, WEIGHTS_MS);
        });
    }

    async read(incarnation) {
        try {
            this.found = await json(this.model.path("weights"), { headers: SHARED });
            const share =
                this.found.share === undefined
                    ? ""
                    : ` These weights stand for ${number(100 * this.found.share, 0)} % of the experts.`;
            this.note =
                "Weight: the largest |weight| of the feature's columns in any output of the linear model, per unit " +
                `of the column. Compare features of like spread only.${share}`;
        } catch (error) {
            this.found = null;
            this.note = error.status === 409 ? NO_WEIGHTS : "";
            if (error.status === 409) this.never = incarnation;
        }
        this.changed();
    }
}

/** The largest |weight| by feature: a column is "name", "name=category", "name#bucket" or "name.part". */
function importance(found, declared) {
    const byFeature = new Map();
    if (!found) return byFeature;
    const names = new Map(declared.map((own) => [own.name, own]));
    for (const output of Object.values(found.weights)) {
        for (const [column, weight] of Object.entries(output)) {
            const name = featureOfColumn(column, names);
            if (name !== null) byFeature.set(name, Math.max(byFeature.get(name) ?? 0, Math.abs(weight)));
        }
    }
    return byFeature;
}

function featureOfColumn(column, names) {
    if (names.has(column)) return column;
    for (const sign of ["=", "#", "."]) {
        for (let at = column.lastIndexOf(sign); at > 0; at = column.lastIndexOf(sign, at - 1)) {
            const name = column.slice(0, at);
            if (names.has(name)) return name;
        }
    }
    return null;
}

// ------------------------------------------------------------------------------------------------ table

function rowsOf({ features: shown, drift }, found) {
    const declared = (shown?.current ?? []).map(featureOf);
    const weight = importance(found, declared);
    const moved = lastMoves(drift?.events ?? []);
    const rows = declared.map((own) => ({
        ...own,
        weight: weight.get(own.name) ?? null,
        moves: moves(own.name, moved),
    }));
    return weight.size ? rows.sort((one, other) => (other.weight ?? -1) - (one.weight ?? -1)) : rows;
}

/** What each column has done in the latest episodes of the model itself, newest first. */
function lastMoves(events) {
    const own = events.filter((event) => event.challenger === null && event.features.length);
    const latest = own.sort((one, other) => other.row - one.row).slice(0, EPISODES);
    const found = new Map();
    for (const event of latest) {
        for (const { name, before, after } of event.features) {
            if (!found.has(name)) found.set(name, { name, before, after, row: event.row });
        }
    }
    return found;
}

function moves(feature, moved) {
    return [...moved.values()].filter(
        ({ name }) => name === feature || ["=", "#", "."].some((sign) => name.startsWith(feature + sign)),
    );
}

function table(rows, found) {
    const most = Math.max(1e-300, ...rows.map(({ weight }) => weight ?? 0));
    const heads = ["Feature", "Kind", ...(found ? ["Weight"] : []), `Mean in the last ${EPISODES} drifts`];
    const left = rows.length - SHOWN_MAX;
    const shown = rows.slice(0, SHOWN_MAX).map((own) => featureRow(own, found, most));
    return [
        scrolled("Features", tableOf("Features in use", heads, shown), ".tall"),
        left > 0 ? h("p.quiet.small", `${left} more features are in the table and the CSV.`) : null,
    ];
}

function featureRow(own, found, most) {
    const bar = () => {
        const filled = h("span.bars-fill.tone-1");
        filled.style.width = `${(100 * (own.weight ?? 0)) / most}%`;
        return h("div.weight",
            h("span.bars-track", { "aria-hidden": "true" }, filled),
            h("span.num", number(own.weight)),
        );
    };
    return h("tr",
        h("th", { scope: "row" }, h("span.clip.clip-wide", { title: own.name }, own.name)),
        h("td.kind", kindText(own)),
        found ? h("td.weight-cell", bar()) : null,
        h("td", own.moves.slice(0, 3).map((move) => moveText(own.name, move))),
    );
}

function moveText(feature, { name, before, after, row }) {
    const part = name === feature ? null : h("span.muted", `${name.slice(feature.length)} `);
    return h("span.move", { title: `At row ${row.toLocaleString("en")}` },
        part,
        `${number(before)} → ${number(after)}`,
    );
}

/**
 * The kind of a declared feature in words.
 *
 * @param {Object} own
 * @returns {string}
 */
function kindText(own) {
    if (own.categories) return someOf(own.categories);
    if (own.type === "categorical") return `any text, in ${own.buckets} columns`;
    if (own.type === "numeric") return `number${bounds(own)}`;
    return own.type;
}

function someOf(categories) {
    const some = categories.slice(0, 6).join(", ");
    return `one of ${categories.length}: ${some}${categories.length > 6 ? ", …" : ""}`;
}

function bounds({ min, max, outside }) {
    if (min === undefined && max === undefined) return "";
    const beyond = outside && outside !== "accept" ? `, others ${outside === "clip" ? "clipped" : "refused"}` : "";
    return ` ${min ?? "−∞"} to ${max ?? "∞"}${beyond}`;
}

function numbersOf(rows) {
    return numbersBy(rows, {
        feature: ({ name }) => name,
        kind: kindText,
        weight: ({ weight }) => weight,
        "moved at row": ({ moves: [last] }) => last?.row,
        "mean before": ({ moves: [last] }) => last?.before,
        "mean after": ({ moves: [last] }) => last?.after,
    });
}

// ------------------------------------------------------------------------------------------------ a change of features

function changeOf(shown) {
    const names = (list) => (list ?? []).map((own) => featureOf(own).name).join(", ");
    const mapping =
        shown.mapping_error === null
            ? "not known yet"
            : `${number(shown.mapping_error)} (0 is perfect, 1 no better than the mean)`;
    const facts = [
        fact(
            "Phase",
            shown.phase === "overlap"
                ? "Overlap: rows carry both sets of features"
                : "Ensemble: old and new learners predict together",
        ),
        shown.next && fact("Next features", names(shown.next)),
        fact("Rows with both sets", rowsText(shown.overlap_rows)),
        fact("Error of the mapping", mapping),
    ];
    return h("div.notice", h("h3", "Change of features"), h("dl.facts", facts));
}
