// The whole model: its state as a file, what it has learned forgotten, the model deleted.

import { json, request, root } from "../api.js";
import { saveAs } from "../charts/frame.js";
import { fill, h } from "../dom.js";
import { actionButton, confirmed, needing, sayer, tell } from "./actions.js";

const FORGOTTEN = [
    "The model forgets every row it has learned; its metrics start again.",
    "It keeps its configuration, features and ids. Restoring a snapshot brings back what it had learned.",
];
const GONE = "This also deletes its rows, metrics, snapshots and challengers. Only an export can bring them back.";

export function care(model, place) {
    const said = sayer();
    const save = async () => {
        const answer = await request(model.path("state"));
        saveAs(`${model.name}.safetensors`, await answer.blob());
        tell(said, "Saved. To load it, use PUT /models/NAME/state or onepass import.");
    };
    const reset = async () => {
        if (!(await confirmed({ title: `Reset ${model.name}?`, text: FORGOTTEN, action: "Reset" }))) return;
        await model.change("reset", { method: "POST" }, "model", "features", "challengers");
        tell(said, "The model has forgotten everything it had learned.");
    };
    const remove = async () => {
        const question = { title: `Delete ${model.name}?`, text: GONE, action: "Delete", typed: model.name };
        if (!(await confirmed(question))) return;
        await json(model.path(), { method: "DELETE" });
        location.assign(root);
    };
    const button = (label, action, kind = "") => actionButton(label, action, { kind: `.small${kind}`, said });
    const admin = h("div.row", button("Reset", reset, ".danger"), button("Delete", remove, ".danger"));
    fill(place, h("div.stack", h("div.row", button("Export", save), needing("admin", admin)), said));
}
