// Elements of the page, made without markup: what users have sent is only ever set as text.

/**
 * An HTML element: h("div.card.wide", { id: "one" }, "text", h("p", "more")). What follows the tag and its classes are
 * attributes, where it is an object, and children: text stays text, null and false are left out. `on` holds listeners
 * by event, `data` values of data-*, `style` properties, `tone` the name of a colour of onepass.css; null leaves an
 * attribute out. A button sends no form unless its type says so.
 */
export const h = (tag, ...given) => made(document.createElement(tag.split(".", 1)[0]), tag, given);

/** An SVG element, likewise. */
export function s(tag, ...given) {
    return made(document.createElementNS("http://www.w3.org/2000/svg", tag.split(".", 1)[0]), tag, given);
}

function made(element, tag, [given, ...children]) {
    const [, ...classes] = tag.split(".");
    if (classes.length) element.setAttribute("class", classes.join(" "));
    if (element.localName === "button") element.type = "button";
    if (given && Object.getPrototypeOf(given) === Object.prototype) assign(element, given);
    else put(element, [given]);
    put(element, children);
    return element;
}

export const byId = (id) => document.getElementById(id);

/** Put something else into an element, which comes back. */
export function fill(element, ...children) {
    element.replaceChildren();
    put(element, children);
    return element;
}

/** Place an element: numbers are pixels. Styles are set one by one, as the policy of pages allows no other way. */
export function placedAt(element, styles) {
    for (const [name, value] of Object.entries(styles)) {
        element.style.setProperty(name, typeof value === "number" ? `${value}px` : value);
    }
    return element;
}

/** A name and its value, of a dl. */
export const fact = (name, value, title) => h("div", h("dt", name), h("dd", { title }, value));

/** A part that is folded away under its title. */
export const folded = (title, inside, how = {}) => h("details.folded", how, h("summary", title), inside);

/** A line of text that is entered as it is. */
export const textInput = (how) => h("input", { type: "text", autocomplete: "off", spellcheck: "false", ...how });

/** A select of pairs of value and text. */
export function select(options, picked, how = {}) {
    const option = ([value, text]) => h("option", { value: String(value), selected: value === picked }, text);
    return h("select", how, options.map(option));
}

/** Open a dialog below its title; it leaves the page when it is closed. */
export function openDialog(title, ...inside) {
    const how = { "aria-labelledby": "dialog-title", on: { close: () => dialog.remove() } };
    const dialog = h("dialog", how, h("div.stack", h("h2", { id: "dialog-title" }, title), inside));
    document.body.append(dialog);
    dialog.showModal();
    return dialog;
}

/** One of a few, as a group of buttons: pairs of key and label; `offer` shows others, and which of them is picked. */
export function choice(name, options, onPick) {
    const element = h("div.choice", { role: "group", "aria-label": name });
    const offer = (list, picked) => {
        const pressed = (key) => ({ "aria-pressed": String(key === picked), on: { click: () => onPick(key) } });
        patch(element, list.map(([key, label]) => h("button", { data: { key }, ...pressed(key) }, label)));
    };
    offer(options, options[0]?.[0]);
    return { element, offer };
}

/** What a person or the page has set on an element since it was made; it stays. */
const KEPT = new Set(["style", "disabled", "open", "aria-expanded"]);

/**
 * Put something else into an element that holds only what this function has put there, and keep the elements that are
 * there already, so what is being pressed, read or scrolled stays. An element is taken for the one with its tag and
 * `data-key`, else at its place; it keeps its listeners, so what listens needs a key, or stands in what has one.
 */
export function patch(element, ...children) {
    const fresh = document.createDocumentFragment();
    put(fresh, children);
    patchChildren(element, fresh);
}

function patchChildren(old, made) {
    const fresh = [...made.childNodes];
    const keyOf = (node) => node.dataset?.key;
    const wanted = new Set(fresh.map(keyOf));
    for (const own of [...old.childNodes]) if (!wanted.has(keyOf(own))) own.remove();
    fresh.forEach((node, at) => {
        const own = old.childNodes[at] ?? null;
        const known = keyOf(node) ? [...old.childNodes].find((one) => keyOf(one) === keyOf(node)) : own;
        const same = known?.nodeName === node.nodeName && keyOf(known) === keyOf(node);
        const placed = same ? known : node;
        if (placed !== own) old.insertBefore(placed, own);
        if (same) renew(known, node);
    });
    while (old.childNodes.length > fresh.length) old.lastChild.remove();
}

function renew(own, node) {
    if (own.nodeType === Node.TEXT_NODE) {
        if (own.data !== node.data) own.data = node.data;
        return;
    }
    for (const { name } of [...own.attributes]) {
        if (!KEPT.has(name) && !node.hasAttribute(name)) own.removeAttribute(name);
    }
    for (const { name, value } of node.attributes) {
        if (!KEPT.has(name) && own.getAttribute(name) !== value) own.setAttribute(name, value);
    }
    if (own.style.cssText !== node.style.cssText) own.style.cssText = node.style.cssText;
    patchChildren(own, node);
}

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "indeterminate", "selected", "open"]);

function assign(element, { on = {}, data = {}, style = {}, tone, ...given }) {
    for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
    for (const [name, value] of Object.entries(data)) if (value !== undefined) element.dataset[name] = value;
    placedAt(element, tone ? { ...style, "--tone": `var(--${tone})` } : style);
    for (const [name, value] of Object.entries(given)) {
        if (value === null || value === undefined) continue;
        if (PROPERTIES.has(name)) element[name] = value;
        else element.setAttribute(name, value);
    }
}

function put(element, children) {
    for (const child of children.flat(Infinity)) {
        if (child === null || child === undefined || child === false) continue;
        element.append(child instanceof Node ? child : String(child));
    }
}
