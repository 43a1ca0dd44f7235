// Features: their kinds, the weights of linear models, what the last drifts have moved, and where a change of features
// stands.

import { json } from "../api.js";
import { bars, sparkline, track } from "../charts/bars.js";
import { Frame, more, named, numbersAt, scrolledTable } from "../charts/frame.js";
import { fact, fill, folded, h, patch } from "../dom.js";
import { number, rowsText } from "../format.js";
import { featureOf } from "./words.js";

const SHOWN_MAX = 60;
const EPISODES = 5;
const EFFECTS_MAX = 12;
const COLUMNS = ["name", "kind", "weight", "moved.row", "moved.before", "moved.after"];
const ANY = "Rows may have any names; the model keeps no list of them.";
const UNKNOWN = "The first feedback row determines the features.";
const WEIGHTS = "Weight: the largest |weight| of the feature’s columns. Only compare features of similar spread.";
/** What stands behind the name of a feature in those of its columns: "name=category", "name#bucket", "name.part". */
const SIGNS = ["=", "#", "."];

export function features(model, place) {
    const change = h("div.optional");
    const numbers = () => numbersAt(rowsOf(model.docs), COLUMNS);
    const frame = new Frame({ title: "Features in use", plain: true, file: `${model.name}-features`, numbers });
    fill(place, change, frame.element, effects(model));
    model.when(["features"], ({ features: shown }) => patch(change, shown.phase !== "steady" && changeOf(shown)));
    model.when(["features", "model", "drift", "weights"], (docs) => {
        const rows = rowsOf(docs);
        const none = docs.model.config.algorithm === "sparse_dfop" ? ANY : UNKNOWN;
        frame.note(rows.length && docs.weights ? noteOf(docs.weights) : "");
        frame.show(rows.length ? table(rows, docs.weights) : h("p.muted", none));
    });
}

/** Which features matter, asked for when it is opened: the service takes up to a second to find out. */
function effects(model) {
    const inside = h("div.stack");
    const none = ({ message }) => h("p.muted", message); // of an observer, or before the first row
    const toggle = async ({ target }) => {
        if (target.open) fill(inside, await json(model.path("effects")).then(effectsShown).catch(none));
    };
    return folded("Which features matter", inside, { on: { toggle } });
}

function effectsShown({ features: list, rows, curves = {} }) {
    if (!rows) return h("p.muted", "No row has been learned yet.");
    const shown = list.slice(0, EFFECTS_MAX).map(({ name, mean_abs: value }) => ({ name, value }));
    const curve = ({ name }) => {
        const values = Object.values(curves[name]?.values ?? {}).at(-1);
        const how = { label: `Curve of ${name}`, width: 120, height: 30 };
        return values && h("li.row", h("span.grow", name), sparkline(values, how));
    };
    const drawn = shown.map(curve).filter(Boolean);
    return [
        h("p.help", `How far each feature moves the score, on average over ${rowsText(rows)}.`),
        bars(shown, { label: "Which features matter" }),
        more(list.length - EFFECTS_MAX, "more"),
        drawn.length > 0 && [h("p.label", "What each adds, from low to high values"), h("ul.plain-list", drawn)],
    ];
}

function noteOf({ share }) {
    return share === undefined ? WEIGHTS : `${WEIGHTS} They represent ${number(100 * share, 0)} % of the experts.`;
}

function rowsOf({ features: shown, drift, weights: found }) {
    const declared = (shown?.current ?? []).map(featureOf);
    const names = declared.map(({ name }) => name).sort((one, other) => other.length - one.length);
    /** The feature of a column: the longest name that it begins with. */
    const whose = (column) =>
        names.find((name) => column === name || SIGNS.some((sign) => column.startsWith(name + sign)));
    const weights = new Map(); // the largest |weight| by feature
    for (const [column, weight] of Object.values(found?.weights ?? {}).flatMap(Object.entries)) {
        weights.set(whose(column), Math.max(weights.get(whose(column)) ?? 0, Math.abs(weight)));
    }
    const moved = lastMoves(drift?.events ?? []);
    const rows = declared.map((own) => {
        const moves = moved.filter(({ name }) => whose(name) === own.name);
        return { ...own, kind: kindText(own), weight: weights.get(own.name) ?? null, moves, moved: moves[0] };
    });
    return rows.sort((one, other) => (other.weight ?? -1) - (one.weight ?? -1));
}

/** What each column has done in the latest episodes of the model itself, newest first. */
function lastMoves(events) {
    const own = events.filter((event) => event.challenger === null && event.features.length);
    const latest = own.sort((one, other) => other.row - one.row).slice(0, EPISODES);
    const found = new Map();
    for (const { row, features: moved } of latest) {
        for (const move of moved) if (!found.has(move.name)) found.set(move.name, { ...move, row });
    }
    return [...found.values()];
}

function table(rows, found) {
    const most = Math.max(1e-300, ...rows.map(({ weight }) => weight ?? 0));
    const moved = rows.some(({ moves }) => moves.length);
    const means = moved ? [`Mean in the last ${EPISODES} drifts`] : [];
    const heads = ["Feature", "Kind", ...(found ? ["Weight"] : []), ...means];
    const weight = (own) => h("div.weight", track(0, (own ?? 0) / most), h("span.num", number(own)));
    const cells = (own) => [
        named(own.name),
        h("td.kind", own.kind),
        ...(found ? [h("td.weight-cell", weight(own.weight))] : []),
        ...(moved ? [h("td", own.moves.slice(0, 3).map((move) => moveText(own.name, move)))] : []),
    ];
    return [
        scrolledTable("Features in use", heads, rows.slice(0, SHOWN_MAX).map(cells), "", ".tall"),
        more(rows.length - SHOWN_MAX, "more, in the table and the CSV."),
    ];
}

function moveText(feature, { name, before, after, row }) {
    const part = name === feature ? null : h("span.muted", `${name.slice(feature.length)} `);
    const title = `At row ${row.toLocaleString("en")}`;
    return h("div.unbroken", { title }, part, `${number(before)} → ${number(after)}`);
}

function kindText({ type, categories, buckets, min, max, outside }) {
    if (categories) {
        const some = categories.slice(0, 6).join(", ");
        return `one of ${categories.length}: ${some}${categories.length > 6 ? ", …" : ""}`;
    }
    if (type === "categorical") return `any text, in ${buckets} columns`;
    if (type !== "numeric") return type;
    if (min === undefined && max === undefined) return "number";
    const beyond = outside && outside !== "accept" ? `, others ${outside === "clip" ? "clipped" : "refused"}` : "";
    return `number ${min ?? "−∞"} to ${max ?? "∞"}${beyond}`;
}

function changeOf({ phase, next, overlap_rows: rows, mapping_error: error }) {
    const overlap = "Overlap: rows carry both sets of features";
    const ensemble = "Ensemble: old and new learners predict together";
    const mapping = error === null ? "not known yet" : `${number(error)} (0 is perfect, 1 is no better than the mean)`;
    return h("div.notice.stack.tight",
        h("h3", "Change of features"),
        h("dl.facts",
            fact("Phase", phase === "overlap" ? overlap : ensemble),
            next && fact("Next features", next.map((own) => featureOf(own).name).join(", ")),
            fact("Rows with both sets", rowsText(rows)),
            fact("Error of the mapping", mapping),
        ),
    );
}
