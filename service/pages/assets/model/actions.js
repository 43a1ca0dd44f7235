/**
 * Things a person does on the page: buttons that wait for their answer, questions before what cannot be undone, and
 * problems said where they belong.
 */

import { Problem } from "../api.js";
import { fill, h } from "../dom.js";

/**
 * A button that calls something and cannot be pressed again until that is done.
 *
 * @param {string} label
 * @param {function(): Promise<void>} action
 * @param {{kind?: string, said?: HTMLElement, name?: string}} [given] `kind`: classes behind dots; `said`: where
 *     problems are shown; `name`: a longer label for those who do not see what stands around it
 * @returns {HTMLButtonElement}
 */
export function actionButton(label, action, { kind = "", said, name } = {}) {
    const button = h(
        `button.button${kind}`,
        { type: "button", "aria-label": name, on: { click: () => acting(button, action, said) } },
        label,
    );
    return button;
}

/**
 * Run an action while its button is disabled; what is refused is said.
 *
 * @param {HTMLButtonElement} button
 * @param {function(): Promise<void>} action
 * @param {HTMLElement} [said]
 */
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

/** Nothing is said any more. */
export function clear(said) {
    fill(said).hidden = true;
}

/** Say something: a notice or a text. */
export function say(said, ...what) {
    fill(said, ...what).hidden = false;
}

/** A place for what is said, read out when it changes. */
export function sayer() {
    return h("div.said", { role: "status", hidden: true });
}

/**
 * A problem as a notice: its detail, a line for each field, and the way to its page.
 *
 * @param {Error} error
 * @returns {HTMLElement}
 */
export function problemNotice(error) {
    if (!(error instanceof Problem)) return h("div.notice.bad", {}, "The page has failed; the console says where.");
    const scope = error.status === 403 ? ["The key in use may not do this."] : [];
    return h(
        "div.notice.bad",
        {},
        [...scope, ...error.lines].map((line) => h("p", {}, line)),
        error.page && h("p", {}, h("a", { href: error.page.href, target: "_blank", rel: "noopener" }, "What to do")),
    );
}

/**
 * Ask before something that cannot be undone.
 *
 * @param {{title: string, text: string, action: string, danger?: boolean}} question `action`: what the button says
 * @returns {Promise<boolean>}
 */
export function confirmed({ title, text, action, danger = true }) {
    return new Promise((resolve) => {
        const close = (answer) => {
            dialog.close();
            dialog.remove();
            resolve(answer);
        };
        const dialog = h(
            "dialog",
            { "aria-labelledby": "confirm-title", on: { cancel: (event) => (event.preventDefault(), close(false)) } },
            h(
                "div.stack",
                {},
                h("h2", { id: "confirm-title" }, title),
                h("p", {}, text),
                h(
                    "div.row.end",
                    {},
                    h("button.button", { type: "button", on: { click: () => close(false) } }, "Cancel"),
                    h(
                        `button.button${danger ? ".danger" : ".primary"}`,
                        { type: "button", data: { confirm: "yes" }, on: { click: () => close(true) } },
                        action,
                    ),
                ),
            ),
        );
        document.body.append(dialog);
        dialog.showModal();
    });
}

let labels = 0;

/**
 * A labelled control of a form.
 *
 * @param {string} label
 * @param {HTMLElement} control
 * @param {{help?: string, path?: string}} [given] `path`: of the field in the request, by which problems find it
 * @returns {HTMLElement} has a method `refuse(text)` that shows or takes back what is wrong
 */
export function field(label, control, { help, path } = {}) {
    labels += 1;
    const id = (control.id ||= `field-${labels}`);
    const error = h("p.error", { id: `${id}-error`, hidden: true });
    const described = [help ? `${id}-help` : null, error.id].filter(Boolean).join(" ");
    control.setAttribute("aria-describedby", described);
    const element = h(
        "div.field",
        { data: path ? { path } : {} },
        h("label", { for: id }, label),
        control,
        help ? h("p.help", { id: `${id}-help` }, help) : null,
        error,
    );
    element.refuse = (text) => {
        error.textContent = text ?? "";
        error.hidden = !text;
        if (text) control.setAttribute("aria-invalid", "true");
        else control.removeAttribute("aria-invalid");
    };
    return element;
}

/**
 * Show the errors of a problem at their fields, by `data-path`; those that fit no field are left.
 *
 * @param {HTMLElement} form
 * @param {Error} error
 * @returns {string[]} lines for what fits no field
 */
export function refuseFields(form, error) {
    const fields = [...form.querySelectorAll("[data-path]")];
    const left = [];
    let first = null;
    for (const { field: path, problem, allowed } of error.errors ?? []) {
        const fitting = fields
            .filter(
                ({ dataset }) =>
                    path === dataset.path || path.startsWith(`${dataset.path}.`) || path.startsWith(`${dataset.path}[`),
            )
            .sort((one, other) => other.dataset.path.length - one.dataset.path.length)[0];
        const told = allowed === null || allowed === undefined ? problem : `${problem}; allowed: ${listed(allowed)}`;
        if (!fitting) {
            left.push(`${path}: ${told}`);
            continue;
        }
        fitting.refuse(path === fitting.dataset.path ? told : `${path}: ${told}`);
        first ??= fitting;
    }
    first?.querySelector("input, select, textarea")?.focus();
    if (!(error.errors ?? []).length) left.push(...(error.lines ?? [String(error.message)]));
    return left;
}

/** Take back what was wrong with the fields of a form. */
export function acceptFields(form) {
    for (const own of form.querySelectorAll("[data-path]")) own.refuse(null);
}

function listed(allowed) {
    return Array.isArray(allowed)
        ? allowed.map((own) => (typeof own === "object" ? JSON.stringify(own) : own)).join(", ")
        : String(allowed);
}
