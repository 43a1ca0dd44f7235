// Things a person does on the page: buttons that wait for their answer, questions before what cannot be undone,
// problems said where they belong; and what the key in use allows: parts that need more are left out (model.css).

import { Problem, json } from "../api.js";
import { fill, h } from "../dom.js";

/**
 * A button that calls something, and cannot be pressed again until that is done; `kind`: classes behind dots; `said`:
 * where problems are shown; `name`: a longer label for those who do not see what stands around it.
 */
export function actionButton(label, action, { kind = "", said, name } = {}) {
    const how = { type: "button", "aria-label": name, on: { click: () => acting(button, action, said) } };
    const button = h(`button.button${kind}`, how, label);
    return button;
}

/** Run an action while its button is disabled; what is refused is said. */
export async function acting(button, action, said) {
    if (button.disabled) return;
    button.disabled = true;
    if (said) clear(said);
    try {
        await action();
    } catch (error) {
        if (!(error instanceof Problem)) console.error(error);
        if (said) say(said, problemNotice(error));
    } finally {
        button.disabled = false;
    }
}

/** A form that runs an action when it is sent. */
export function actionForm(kind, button, action, said, ...children) {
    const submit = (event) => {
        event.preventDefault();
        acting(button, action, said);
    };
    return h(`form${kind}`, { on: { submit } }, children);
}

/** A place for what is said, read out when it changes. */
export const sayer = () => h("div.said", { role: "status", hidden: true });

export function clear(said) {
    fill(said).hidden = true;
}

export function say(said, ...what) {
    fill(said, ...what).hidden = false;
}

/** Say that something was done, or another thing that is `kind`: good, warn, bad. */
export function tell(said, text, kind = "good") {
    say(said, h(`p.notice.${kind}`, text));
}

/** A problem as a notice: its detail, a line for each field, and the way to its page. */
export function problemNotice(error) {
    if (!(error instanceof Problem)) return h("div.notice.bad", "The page failed; see the browser's console.");
    const scope = error.status === 403 ? ["Your key does not allow this."] : [];
    const link = () => h("a", { href: error.page.href, target: "_blank", rel: "noopener" }, "What to do");
    return h("div.notice.bad", [...scope, ...error.lines].map((line) => h("p", line)), error.page && h("p", link()));
}

/**
 * Ask before something that cannot be undone; `text`: paragraphs or elements; `action`: what the button says; `typed`:
 * what has to be typed in before it can be pressed.
 */
export function confirmed({ title, text, action, danger = true, typed = null }) {
    return new Promise((resolve) => {
        const close = (answer) => {
            dialog.remove();
            resolve(answer);
        };
        const button = (kind, label, data, answer) =>
            h(`button.button${kind}`, { type: "button", data, on: { click: () => close(answer) } }, label);
        const yes = button(danger ? ".danger" : ".primary", action, { confirm: "yes" }, true);
        const check = ({ target }) => (yes.disabled = target.value !== typed);
        const how = { type: "text", autocomplete: "off", spellcheck: "false", on: { input: check } };
        const asked = typed !== null && h("label.field", `Type ${typed} to go on`, h("input", how));
        yes.disabled = typed !== null;
        const dialog = h("dialog", { "aria-labelledby": "confirm-title", on: { cancel: () => close(false) } },
            h("div.stack",
                h("h2", { id: "confirm-title" }, title),
                [text].flat().map((line) => (line instanceof Node ? line : h("p", line))),
                asked,
                h("div.row.end", button("", "Cancel", {}, false), yes),
            ),
        );
        document.body.append(dialog);
        dialog.showModal();
    });
}

const MISSING = {
    learn: "Teaching needs a key with the scope learn.",
    admin: "Changing this needs a key with the scope admin.",
};

/** Ask what the key allows, and mark the page with it. */
export async function showRights() {
    try {
        document.body.dataset.scope = (await json("key")).scope;
    } catch {
        delete document.body.dataset.scope; // what is not allowed is refused, and said, where it is tried
    }
}

/** A part that needs a scope, "learn" or "admin", and what stands in its place without it. */
export function needing(scope, ...children) {
    return [h(`div.needs-${scope}`, children), h(`p.muted.small.without-${scope}`, MISSING[scope])];
}
