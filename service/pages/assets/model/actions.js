// Things a person does on the page: buttons that wait for their answer, questions before what cannot be undone,
// problems said where they belong; and what the key in use allows: parts that need more are left out (model.css).

import { Problem, json } from "../api.js";
import { fill, h, openDialog, textInput } from "../dom.js";

/** A button, disabled while its action runs; `said` shows problems, `name` is a longer label for screen readers. */
export function actionButton(label, action, { kind = "", said, name } = {}) {
    const on = { click: ({ currentTarget }) => acting(currentTarget, action, said) };
    return h(`button.button${kind}`, { "aria-label": name, on }, label);
}

/** Run an action while its button is disabled, which then has the focus again; what is refused is said. */
export async function acting(button, action, said) {
    if (button.disabled) return;
    const held = document.activeElement === button;
    button.disabled = true;
    if (said) fill(said);
    try {
        await action();
    } catch (error) {
        if (!(error instanceof Problem)) console.error(error);
        if (said) fill(said, problemNotice(error));
    } finally {
        button.disabled = false;
        if (held && document.activeElement === document.body) button.focus();
    }
}

export function actionForm(kind, button, action, said, ...children) {
    const submit = (event) => {
        event.preventDefault();
        acting(button, action, said);
    };
    return h(`form${kind}`, { on: { submit } }, children);
}

/** A place for what is said, read out when it changes. */
export const sayer = () => h("div.said.optional", { role: "status" });

/** Say that something was done, or another thing that is `kind`: good, warn, bad. */
export const tell = (said, text, kind = "good") => fill(said, h(`p.notice.${kind}`, text));

/** A problem as a notice: its detail, a line for each field, and the way to its page. */
export function problemNotice(error) {
    if (!(error instanceof Problem)) return h("div.notice.bad", "The page failed; see the browser's console.");
    const scope = error.status === 403 ? ["Your key does not allow this."] : [];
    const link = error.page && h("a", { href: error.page.href, target: "_blank", rel: "noopener" }, "What to do");
    return h("div.notice.bad", [...scope, ...error.lines, link].map((line) => line && h("p", line)));
}

/** Ask before something that cannot be undone; `typed`: what has to be typed in before it can be confirmed. */
export async function confirmed({ title, text, action, danger = true, typed = null }) {
    const how = { type: "submit", value: "yes", disabled: typed !== null, data: { confirm: "yes" } };
    const yes = h(`button.button${danger ? ".danger" : ".primary"}`, how, action);
    const check = ({ target }) => (yes.disabled = target.value !== typed);
    const dialog = openDialog(title,
        h("form.stack", { method: "dialog" },
            [text].flat().map((line) => (typeof line === "string" ? h("p", line) : line)),
            typed !== null && h("label.field", `Type ${typed} to confirm`, textInput({ on: { input: check } })),
            h("div.row.end", h("button.button", { on: { click: () => dialog.close() } }, "Cancel"), yes),
        ),
    );
    await new Promise((closed) => dialog.addEventListener("close", closed));
    return dialog.returnValue === "yes";
}

const MISSING = {
    learn: "Teaching needs a key with the scope learn.",
    admin: "Changing this needs a key with the scope admin.",
};

/** Ask what the key allows, and mark the page with it. */
export async function showRights() {
    const { scope } = await json("key").catch(() => ({}));
    if (scope) document.body.dataset.scope = scope; // else what is not allowed is refused, and said, where it is tried
}

/** A part that needs a scope, "learn" or "admin", and what stands in its place without it. */
export function needing(scope, ...children) {
    return [h(`div.needs-${scope}`, children), h(`p.muted.small.without-${scope}`, MISSING[scope])];
}
