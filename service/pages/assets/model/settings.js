/**
 * The fields of what can be changed of a configuration. Each says its value as the API takes it, and whether it differs
 * from the one it began with.
 */

import { h } from "../dom.js";
import { field, refusable } from "./actions.js";

/**
 * A field of the form.
 *
 * @typedef {{key: string, element: HTMLElement, value: function(): *}} Setting
 */

const CHOICES = {
    on_drift: [
        ["report", "Report it"],
        ["reset", "Start the learner again"],
        ["forget", "Forget most of the past"],
    ],
    missing: [["error", "Refuse the row"], ["zero", "Take 0"], ["mean", "Take the mean"]],
    unknown: [["other", "Set its columns to 0"], ["error", "Refuse the row"]],
};

/**
 * The fields for a configuration.
 *
 * @param {Object} config of GET /models/NAME
 * @param {Array<string|number|boolean>} labels declared or seen
 * @returns {Setting[]}
 */
export function settingsFields(config, labels) {
    const classes = config.task === "classification";
    const all = [
        textSetting("description", "Description", config.description ?? "", "A note for people."),
        pairsSetting("tags", "Tags", config.tags ?? {}),
        choiceSetting("on_drift", "When a drift is found", config.on_drift ?? "report"),
        choiceSetting("missing", "A missing value", config.missing ?? "error"),
        choiceSetting("unknown", "A category that is not declared", config.unknown ?? "other"),
        linesSetting(
            "ignore",
            "Ignored names",
            config.ignore ?? [],
            "One per line. Rows may hold them; they are passed over.",
        ),
        classes ? costsSetting(config.class_costs ?? {}, labels) : null,
        classes && config.labels ? labelsSetting(labels) : null,
        watchSetting(config.watch),
    ].filter(Boolean);
    for (const own of all) own.first = JSON.stringify(own.value());
    return all;
}

/**
 * What has been changed, as the body of a PATCH.
 *
 * @param {Setting[]} fields
 * @returns {Object}
 */
export function changesOf(fields) {
    const changed = fields.filter((own) => JSON.stringify(own.value()) !== own.first);
    return Object.fromEntries(changed.map((own) => [own.key, own.value()]));
}

function textSetting(key, label, text, help) {
    const input = h("input", { type: "text", value: text });
    return { key, element: field(label, input, { path: key, help }), value: () => input.value };
}

function choiceSetting(key, label, picked) {
    const select = h("select",
        CHOICES[key].map(([value, name]) => h("option", { value, selected: value === picked }, name)),
    );
    return { key, element: field(label, select, { path: key }), value: () => select.value };
}

function linesOf(area) {
    return area.value
        .split("\n")
        .map((line) => line.trim())
        .filter(Boolean);
}

function linesSetting(key, label, lines, help) {
    const area = h("textarea.short", { spellcheck: "false", value: lines.join("\n") });
    return { key, element: field(label, area, { path: key, help }), value: () => linesOf(area) };
}

/** Labels are typed: where all that are there are integers or booleans, a line is read as one. */
function labelsSetting(labels) {
    const area = h("textarea.short", { spellcheck: "false" });
    const types = new Set(labels.map((label) => typeof label));
    const read = (line) => {
        if (types.size !== 1 || types.has("string")) return line;
        if (types.has("number")) return /^-?\d+$/.test(line) ? Number(line) : line;
        return { true: true, false: false }[line] ?? line;
    };
    const help = `One per line; added after the existing ${labels.length}.`;
    return {
        key: "add_labels",
        element: field("Further labels", area, { path: "add_labels", help }),
        value: () => linesOf(area).map(read),
    };
}

function costsSetting(costs, labels) {
    const inputs = labels.slice(0, 50).map((label) => {
        const name = String(label);
        const input = h("input", { type: "number", min: "0", step: "any", value: costs[name] ?? "", placeholder: "1" });
        return [name, input];
    });
    const element = group(
        "What missing a class costs",
        "class_costs",
        "1 where nothing is entered; the prediction is the label of least expected cost.",
        inputs.map(([name, input]) => field(name, input, { path: `class_costs.${name}` })),
    );
    const value = () => {
        const named = inputs
            .filter(([, input]) => input.value !== "")
            .map(([name, input]) => [name, Number(input.value)]);
        return named.length ? Object.fromEntries(named) : null;
    };
    return { key: "class_costs", element, value };
}

function pairsSetting(key, label, pairs) {
    const list = h("div.stack.tight");
    const add = (name = "", text = "") => {
        const row = h("div.pair-row",
            h("input", { type: "text", value: name, placeholder: "name", "aria-label": `${label}: name` }),
            h("input", { type: "text", value: text, placeholder: "value", "aria-label": `${label}: value` }),
            h("button.button.quiet.small",
                { type: "button", "aria-label": "Take this one away", on: { click: () => remove(row) } },
                "×",
            ),
        );
        list.append(row);
    };
    const remove = (row) => {
        row.remove();
        list.dispatchEvent(new Event("change", { bubbles: true }));
    };
    for (const [name, text] of Object.entries(pairs)) add(name, text);
    const element = group(label, key, null, [
        list,
        h("button.button.small", { type: "button", on: { click: () => add() } }, "Add a tag"),
    ]);
    const value = () => {
        const rows = [...list.children].map((row) => [...row.querySelectorAll("input")].map((input) => input.value));
        return Object.fromEntries(rows.filter(([name]) => name !== ""));
    };
    return { key, element, value };
}

// ------------------------------------------------------------------------------------------------ watch

const TESTS = { class_mean: "Means of features in each class", error_rate: "How often the model is wrong" };

function watchSetting(watch) {
    const parts = Object.entries(TESTS).map(([key, name]) => testPart(key, name, watch?.[key]));
    const episode = numberInput(watch?.episode_rows, "default");
    const cooldown = numberInput(watch?.cooldown_rows, "default");
    const unlabelled = h("input", { type: "checkbox", checked: watch?.unlabelled ?? false });
    const element = group("Drift tests", "watch", null, [
        ...parts.map((own) => own.element),
        h("div.form-grid",
            field("Episode, rows", episode, {
                path: "watch.episode_rows",
                help: "Alarms within them are one event.",
            }),
            field("Cool-down, rows", cooldown, {
                path: "watch.cooldown_rows",
                help: "Events within them are not acted upon.",
            }),
        ),
        h("label.check", unlabelled, "Test features and predictions before labels come"),
    ]);
    const value = () => {
        const tests = parts.map((own) => [own.key, own.value()]).filter(([, test]) => test !== null);
        if (!tests.length && !unlabelled.checked) return null;
        const rows = { episode_rows: episode.value, cooldown_rows: cooldown.value };
        const bounds = Object.entries(rows)
            .filter(([, text]) => text !== "")
            .map(([key, text]) => [key, Number(text)]);
        const off = tests.length ? [] : parts.map((own) => [own.key, null]);
        return Object.fromEntries([...off, ...tests, ...bounds, ...(unlabelled.checked ? [["unlabelled", true]] : [])]);
    };
    return { key: "watch", element, value };
}

function testPart(key, name, test) {
    const on = h("input", { type: "checkbox", checked: Boolean(test) });
    const delta = numberInput(test?.delta, "0.05");
    const batch = numberInput(test?.batch_size, "200");
    const element = h("div.test",
        h("label.check", on, name),
        h("div.form-grid",
            field("Chance of a false alarm", delta, { path: `watch.${key}.delta` }),
            field("Rows of a recent window", batch, { path: `watch.${key}.batch_size` }),
        ),
    );
    const value = () => {
        if (!on.checked) return null;
        const given = { delta: delta.value, batch_size: batch.value };
        return Object.fromEntries(
            Object.entries(given)
                .filter(([, text]) => text !== "")
                .map(([name_, text]) => [name_, Number(text)]),
        );
    };
    return { key, element, value };
}

function numberInput(value, placeholder) {
    return h("input", { type: "number", step: "any", value: value ?? "", placeholder });
}

/** Fields that are one value of the configuration, with a name of their own. */
function group(name, path, help, children) {
    const error = h("p.error", { role: "alert", hidden: true });
    const element = h("fieldset.field-group", { data: { path } },
        h("legend", name),
        help ? h("p.help", help) : null,
        children,
        error,
    );
    refusable(element, error);
    return element;
}
