/**
 * Elements of the page, made without markup: what users have sent is only ever set as text.
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element: h("div.card.wide", { id: "one" }, "text", h("p", "more")).
 *
 * @param {string} tag its name, with classes behind dots
 * @param {Object|Node|string|number|null|Array} [given] attributes by name, or the first child; `on` holds listeners by
 *     event, `data` values of data-*; properties that are not set by attributes (value, checked, disabled, hidden,
 *     indeterminate) are set as such; null leaves one out
 * @param {...(Node|string|number|null|Array)} children what it holds; text stays text
 * @returns {HTMLElement}
 */
export function h(tag, given, ...children) {
    return made(document.createElement(nameOf(tag)), tag, given, children);
}

/** An SVG element, likewise. */
export function s(tag, given, ...children) {
    return made(document.createElementNS(SVG, nameOf(tag)), tag, given, children);
}

function nameOf(tag) {
    return tag.split(".", 1)[0];
}

function made(element, tag, given, children) {
    const [, ...classes] = tag.split(".");
    if (classes.length) element.setAttribute("class", classes.join(" "));
    if (given && Object.getPrototypeOf(given) === Object.prototype) assign(element, given);
    else put(element, [given]);
    put(element, children);
    return element;
}

/**
 * Put something else into an element.
 *
 * @param {Element} element
 * @param {...(Node|string|number|null|Array)} children
 * @returns {Element} the element
 */
export function fill(element, ...children) {
    element.replaceChildren();
    put(element, children);
    return element;
}

/** A name and its value, of a dl. */
export function fact(name, value, title) {
    return h("div", h("dt", name), h("dd", { title }, value));
}

/**
 * One of a few, as a group of buttons.
 *
 * @param {string} name of the group
 * @param {Array<[string, string]>} options pairs of key and label; the first one is picked
 * @param {function(string): void} onPick
 * @returns {{element: HTMLElement, offer: function(Array<[string, string]>, string): void}} `offer` shows options, and
 *     which of them is picked
 */
export function choice(name, options, onPick) {
    const element = h("div.choice", { role: "group", "aria-label": name });
    let written = null;
    const button = ([key, label]) =>
        h("button", { type: "button", data: { key }, on: { click: () => onPick(key) } }, label);
    const offer = (list, picked) => {
        const text = JSON.stringify(list);
        if (text !== written) fill(element, list.map(button));
        written = text;
        for (const own of element.children) own.setAttribute("aria-pressed", String(own.dataset.key === picked));
    };
    offer(options, options[0]?.[0]);
    return { element, offer };
}

/** What a person or the page has set on an element since it was made; it stays. */
const KEPT = new Set(["style", "disabled", "open", "aria-expanded"]);

/**
 * Put something else into an element, and keep the elements that are there already, so that what is being pressed, read
 * or scrolled stays where it is. An element is taken for the one at its place if both have the same tag and `data-key`;
 * it keeps its listeners, so elements that listen need a key, or stand in one that has it.
 *
 * @param {Element} element holds nothing but what this function has put there
 * @param {...(Node|string|number|null|Array)} children newly made
 */
export function patch(element, ...children) {
    const fresh = document.createDocumentFragment();
    put(fresh, children);
    patchChildren(element, fresh);
}

function patchChildren(old, made) {
    const fresh = [...made.childNodes];
    fresh.forEach((node, at) => {
        const own = old.childNodes[at];
        if (!own) old.append(node);
        else if (own.nodeName === node.nodeName && own.dataset?.key === node.dataset?.key) renew(own, node);
        else own.replaceWith(node);
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

function assign(element, given) {
    for (const [key, value] of Object.entries(given)) {
        if (value === null || value === undefined) continue;
        if (key === "on") {
            for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
        } else if (key === "data") {
            for (const [name, own] of Object.entries(value)) if (own !== undefined) element.dataset[name] = own;
        } else if (PROPERTIES.has(key)) {
            element[key] = value;
        } else {
            element.setAttribute(key, value);
        }
    }
}

function put(element, children) {
    for (const child of children.flat(Infinity)) {
        if (child === null || child === undefined || child === false) continue;
        element.append(child instanceof Node ? child : String(child));
    }
}
