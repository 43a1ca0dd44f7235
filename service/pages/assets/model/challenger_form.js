/**
 * A form that puts another challenger beside the model.
 */

import { json } from "../api.js";
import { fill, h } from "../dom.js";
import { acting, answered, clear, field, problemNotice, say, sayer } from "./actions.js";

const NAME = "[A-Za-z0-9][A-Za-z0-9._\\-]{0,63}";

/**
 * The form, folded away until it is asked for.
 *
 * @param {import("./documents.js").ModelDocuments} model
 * @returns {HTMLElement}
 */
export function challengerForm(model) {
    const said = sayer();
    const name = h("input", {
        type: "text",
        required: "",
        pattern: NAME,
        placeholder: "candidate",
        autocomplete: "off",
        spellcheck: "false",
    });
    const algorithm = h("select");
    const about = h("p.help");
    const params = h("textarea.short", { placeholder: "{}", spellcheck: "false" });
    const promote = h("select",
        h("option", { value: "never" }, "Never by itself"),
        h("option", { value: "auto" }, "By itself, once it is surely better"),
    );
    const submit = h("button.button.primary", { type: "submit" }, "Add the challenger");
    let offered = [];
    const explain = () => {
        const one = offered.find(({ id }) => id === algorithm.value);
        const known = Object.keys(one?.params.properties ?? {});
        about.textContent = one?.summary ?? "";
        params.placeholder = known.length ? `{}   of ${known.join(", ")}` : "{}";
    };
    algorithm.addEventListener("change", explain);
    const form = h("form.stack",
        h("div.form-grid",
            field("Name", name, { path: "name" }),
            field("Algorithm", algorithm, { path: "algorithm" }),
            field("Promotion", promote, { path: "promote" }),
        ),
        about,
        field("Parameters, as JSON", params, { path: "params", help: "Left empty: the defaults." }),
        said,
        h("div.row", submit),
    );
    const send = async () => {
        const read = paramsOf(params.value);
        if (read.error) return void form.querySelector('[data-path="params"]').refuse(read.error);
        const body = {
            algorithm: algorithm.value,
            promote: promote.value,
            ...(read.params ? { params: read.params } : {}),
        };
        const to = model.path(`challengers/${encodeURIComponent(name.value)}`);
        if (!(await answered(form, said, to, { method: "PUT", body }))) return;
        const added = name.value;
        form.reset();
        explain();
        say(said, h("p.notice.good", `${added} learns every row from here on.`));
        await model.refresh("challengers");
    };
    form.addEventListener("submit", (event) => {
        event.preventDefault();
        acting(submit, send, said);
    });
    const folded = h("details.folded", h("summary", "Add a challenger"), form);
    folded.addEventListener("toggle", async () => {
        if (!folded.open || offered.length || !model.docs.model) return;
        try {
            const { task, algorithm: own } = model.docs.model.config;
            offered = (await json("algorithms")).algorithms.filter(
                ({ id, tasks }) => tasks.includes(task) && (id !== "sparse_dfop" || own === id),
            );
            fill(algorithm, offered.map(({ id }) => h("option", { value: id }, id)));
            explain();
            clear(said);
        } catch (error) {
            say(said, problemNotice(error));
        }
    });
    return folded;
}

function paramsOf(text) {
    if (!text.trim()) return {};
    try {
        return { params: JSON.parse(text) };
    } catch (error) {
        return { error: `is not JSON: ${error.message}` };
    }
}
