// A form that puts another challenger beside the model.

import { json } from "../api.js";
import { fill, h } from "../dom.js";
import { actionForm, clear, problemNotice, say, sayer, tell } from "./actions.js";
import { answered, entry, field } from "./fields.js";

const NAME = "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}";

/** The form, folded away until it is asked for; the schema is of the body that it sends. */
export function challengerForm(model, { properties }) {
    const said = sayer();
    const text = { type: "text", autocomplete: "off", spellcheck: "false" };
    const name = h("input", { ...text, required: "", pattern: NAME, placeholder: "candidate" });
    const place = h("div.stack");
    let offered = [];
    let entries = {};
    /** Draw the fields, for an algorithm and its parameters. */
    const draw = (picked) => {
        const own = offered.find(({ id }) => id === picked) ?? offered[0];
        const algorithm = { ...properties.algorithm, enum: offered.map(({ id }) => id), description: own.summary };
        const { description } = properties.params;
        entries = {
            algorithm: entry("algorithm", algorithm, { value: own.id }),
            promote: entry("promote", properties.promote),
            params: entry("params", { ...own.params, description }),
        };
        entries.algorithm.element.addEventListener("change", () => {
            draw(entries.algorithm.value());
            entries.algorithm.element.querySelector("select").focus();
        });
        const shown = Object.values(entries).map(({ element }) => element);
        fill(place, h("div.form-grid", field("Name", name, { path: "name" }), shown));
    };
    const submit = h("button.button.primary", { type: "submit" }, "Add the challenger");
    const send = async () => {
        const body = Object.fromEntries(Object.entries(entries).map(([key, own]) => [key, own.value()]));
        const to = model.path(`challengers/${encodeURIComponent(name.value)}`);
        if (!(await answered(form, said, to, { method: "PUT", body }))) return;
        tell(said, `${name.value} learns every row from here on.`);
        name.value = "";
        draw();
        await model.refresh("challengers");
    };
    const form = actionForm(".stack", submit, send, said, place, said, h("div.row", submit));
    const folded = h("details.folded", h("summary", "Add a challenger"), form);
    folded.addEventListener("toggle", async () => {
        if (!folded.open || offered.length || !model.docs.model) return;
        try {
            const { task, algorithm: own } = model.docs.model.config;
            const fine = ({ id, tasks }) => tasks.includes(task) && (id !== "sparse_dfop" || own === id);
            offered = (await json("algorithms")).algorithms.filter(fine);
            draw();
            clear(said);
        } catch (error) {
            say(said, problemNotice(error));
        }
    });
    return folded;
}
