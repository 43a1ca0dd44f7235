/**
 * Things a person does on the page: buttons that wait for their answer, questions before what cannot be undone, and
 * problems said where they belong.
 */

import { json, Problem, wrong } from "../api.js";
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
    const button = h(`button.button${kind}`,
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
    if (!(error instanceof Problem)) return h("div.notice.bad", "The page has failed; the console says where.");
    const scope = error.status === 403 ? ["The key in use may not do this."] : [];
    return h("div.notice.bad",
        [...scope, ...error.lines].map((line) => h("p", line)),
        error.page && h("p", h("a", { href: error.page.href, target: "_blank", rel: "noopener" }, "What to do")),
    );
}

/**
 * Ask before something that cannot be undone.
 *
 * @param {{title: string, text: string|string[], action: string, danger?: boolean}} question `text`: one paragraph or
 *     several; `action`: what the button says
 * @returns {Promise<boolean>}
 */
export function confirmed({ title, text, action, danger = true }) {
    return new Promise((resolve) => {
        const close = (answer) => {
            dialog.close();
            dialog.remove();
            resolve(answer);
        };
        const dialog = h("dialog",
            { "aria-labelledby": "confirm-title", on: { cancel: (event) => (event.preventDefault(), close(false)) } },
            h("div.stack",
                h("h2", { id: "confirm-title" }, title),
                [text].flat().map((line) => h("p", line)),
                h("div.row.end",
                    h("button.button", { type: "button", on: { click: () => close(false) } }, "Cancel"),
                    h(`button.button${danger ? ".danger" : ".primary"}`,
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
    const element = h("div.field", { data: path ? { path } : {} },
        h("label", { for: id }, label),
        control,
        help ? h("p.help", { id: `${id}-help` }, help) : null,
        error,
    );
    refusable(element, error, control);
    return element;
}

/**
 * Give an element the method `refuse(text)`, which shows what is wrong with it or takes that back.
 *
 * @param {HTMLElement} element
 * @param {HTMLElement} error where it is shown
 * @param {HTMLElement} [control] what is wrong, where it is one control
 */
export function refusable(element, error, control) {
    element.refuse = (text) => {
        error.textContent = text ?? "";
        error.hidden = !text;
        if (text) control?.setAttribute("aria-invalid", "true");
        else control?.removeAttribute("aria-invalid");
    };
}

/**
 * Send what a form holds. What is refused is said at the fields of the form, and in `said` where it fits none of them.
 *
 * @param {HTMLElement} form
 * @param {HTMLElement} said
 * @param {string} to as `json` takes it
 * @param {Object} how likewise
 * @returns {Promise<Object|null>} the answer; null where fields are refused
 */
export async function answered(form, said, to, how) {
    for (const own of form.querySelectorAll("[data-path]")) own.refuse(null);
    try {
        return await json(to, how);
    } catch (error) {
        if (!error.errors?.length) throw error;
        const left = refuseFields(form, error.errors);
        if (left.length) say(said, h("div.notice.bad", left.map((line) => h("p", line))));
        return null;
    }
}

/** Show errors at their fields, by `data-path`, and give back lines for those that fit none. */
function refuseFields(form, errors) {
    const fields = [...form.querySelectorAll("[data-path]")];
    const left = [];
    let first = null;
    for (const error of errors) {
        const path = error.field;
        const fitting = fields
            .filter(
                ({ dataset }) =>
                    path === dataset.path || path.startsWith(`${dataset.path}.`) || path.startsWith(`${dataset.path}[`),
            )
            .sort((one, other) => other.dataset.path.length - one.dataset.path.length)[0];
        const told = wrong(error);
        if (!fitting) {
            left.push(`${path}: ${told}`);
            continue;
        }
        fitting.refuse(path === fitting.dataset.path ? told : `${path}: ${told}`);
        first ??= fitting;
    }
    first?.querySelector("input, select, textarea")?.focus();
    return left;
}
