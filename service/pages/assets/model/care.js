// The whole model: its state as a file, what it has learned forgotten, the model deleted.

import { json, request, root } from "../api.js";
import { saveAs } from "../charts/frame.js";
import { fill, h } from "../dom.js";
import { actionButton, confirmed, needing, sayer, tell } from "./actions.js";

const FORGOTTEN = [
    "The model forgets every row it has learned; its metrics start again.",
    "Configuration, features in use and ids stay. Restoring one of its snapshots brings it back.",
];
const GONE = "Its rows, metrics, snapshots and challengers go with it. Only an export brings them back.";

export function care(model, place) {
    const said = sayer();
    const save = async () => {
        const answer = await request(model.path("state"));
        saveAs(`${model.name}.safetensors`, await answer.blob());
        tell(said, "Saved. PUT /models/NAME/state, or onepass import, makes a model of it.");
    };
    const reset = async () => {
        if (!(await confirmed({ title: `Reset ${model.name}?`, text: FORGOTTEN, action: "Reset" }))) return;
        await model.change("reset", { method: "POST" }, "model", "features", "challengers");
        tell(said, "The model has forgotten what it had learned.");
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
