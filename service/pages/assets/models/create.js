// A new model: its name and its task, and perhaps a file that it learns first.

import { address, json } from "../api.js";
import { fill, h, openDialog, select, textInput } from "../dom.js";
import { whole } from "../format.js";
import { actionForm, sayer, tell } from "../model/actions.js";
import { NAME, answered, field } from "../model/fields.js";

const PART_BYTES = 1_000_000;
const TASKS = [["classification", "Classes: one of several labels"], ["regression", "Numbers"]];
/** A line of a CSV file; a quoted cell may go on in the next line. */
const RECORD = /(?:"[^"]*"|[^\r\n])+/g;

/** Ask for a new model in a dialog, create it, and go to its page. */
export function newModel() {
    const said = sayer();
    const name = textInput({ required: "", pattern: NAME });
    const task = select(TASKS, "classification", { on: { change: () => show() } });
    const labels = h("textarea.short", { spellcheck: "false", placeholder: "one per line" });
    const file = h("input", { type: "file", accept: ".csv,text/csv", on: { change: () => read() } });
    const column = h("select");
    const labelsField = field("Labels", labels, { path: "labels", help: "Leave empty to take them from the rows." });
    const columnField = field("Label column", column, { path: "label" });
    const submit = h("button.button.primary", { type: "submit" }, "Create");
    let table = null;
    const show = () => {
        labelsField.hidden = task.value === "regression";
        columnField.hidden = table === null;
    };
    const read = async () => {
        table = file.files.length ? tableOf(await file.files[0].text()) : null;
        fill(column, (table?.names ?? []).map((own) => h("option", { value: own }, own)));
        column.selectedIndex = column.options.length - 1;
        file.setCustomValidity(JSON.stringify(table).includes("\uFFFD") ? "This file is not in UTF-8." : "");
        show();
    };
    const create = async () => {
        const given = labels.value.split("\n").map((line) => line.trim()).filter(Boolean);
        const body = { task: task.value, ...(given.length && task.value !== "regression" && { labels: given }) };
        const path = `models/${encodeURIComponent(name.value)}`;
        const made = await answered(form, said, path, { method: "PUT", body });
        const taken = made?.version > 0 || made?.rows > 0; // a copy has rows at version 0
        if (taken) return tell(said, `${name.value} exists already. Choose another name.`, "warn");
        if (made && table) await teach(path, table, column.value, said);
        if (made) location.assign(address(`ui/${path}`));
    };
    const form = actionForm(".stack", submit, create, said,
        field("Name", name, { path: "name", help: "Letters, digits, dots, dashes and underscores." }),
        field("What it predicts", task, { path: "task" }),
        labelsField,
        field("Learn a file first (optional)", file, { help: "CSV in UTF-8, a header, decimal points." }),
        columnField,
        said,
        h("div.row.end", h("button.button", { on: { click: () => dialog.close() } }, "Cancel"), submit),
    );
    const dialog = openDialog("New model", form);
    show();
}

/** A CSV file: its header, the names in it, what stands between cells, its rows and how many make a part to send. */
function tableOf(text) {
    const [header, ...rows] = text.replace(/^\uFEFF/, "").match(RECORD) ?? [""];
    const cells = (own) => header.match(new RegExp(`(?<=^|[${own}])(?:"[^"]*"|[^"${own}])*`, "g")); // quoted or not
    const [delimiter] = [",", ";", "\t", "|"].sort((one, other) => cells(other).length - cells(one).length);
    const names = cells(delimiter).map((own) => own.replace(/^"(.*)"$/, "$1").replaceAll('""', '"'));
    return { header, names, delimiter, rows, part: Math.ceil((PART_BYTES * rows.length) / text.length) };
}

async function teach(path, { header, delimiter, rows, part }, label, said) {
    const query = { label, delimiter: delimiter === "\t" ? "tab" : delimiter };
    const how = { method: "POST", query, headers: { "Content-Type": "text/csv" } };
    for (let at = 0; at < rows.length; at += part) {
        const text = [header, ...rows.slice(at, at + part), ""].join("\n");
        const answer = json(`${path}/feedback/batch`, { ...how, text });
        const { rows: learned } = await answer.catch((error) => counted(error, at));
        tell(said, `${whole(learned)} rows learned`);
    }
}

/** Throw a problem of a part of a file, which counts rows from its first, with rows counted from that of the file. */
function counted(error, before) {
    const told = (text) => text.replaceAll(/\brow (\d+)/g, (_, row) => `row ${before + Number(row)}`);
    error.message = told(error.message);
    for (const own of error.errors ?? []) own.field = told(own.field);
    throw error;
}
