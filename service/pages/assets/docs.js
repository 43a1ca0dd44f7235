// Swagger UI: errors in one line each, streams without "Try it out", and the key that this tab has been given.

import { root } from "./api.js";
import { key } from "./key.js";

const place = document.getElementById("swagger");

/** What an error status means, with a link to its problems in place of the same example under every route. */
function error(element, props) {
    const code = String(props.code);
    const link = element("a", { href: new URL(`problems#${code}`, root).href }, "problems");
    return element("tr", { className: "response problem", "data-code": code },
        element("td", { className: "response-col_status" }, code),
        element("td", { className: "response-col_description" }, props.response.get("description"), ": ", link),
    );
}

const isProblem = ({ code, response }) =>
    code >= 400 && (response.get("content")?.has("application/problem+json") ?? true);

/** Wraps what Swagger UI asks before it offers to try an operation out: streams would never end. */
const allowTryItOutFor = (allowed, { specSelectors }) => (state, path, method) =>
    !specSelectors.specJson().getIn(["paths", path, method, "x-stream"]) && allowed(state, path, method);

const ours = ({ React: { createElement: element } }) => ({
    afterLoad() { // lines are shown and sent as they are: as JSON they would be one string
        const { getSampleSchema: sample } = this.fn;
        this.fn.getSampleSchema = (schema, type, ...rest) => sample(schema, `${type}`.replace("x-ndjson", ""), ...rest);
    },
    wrapComponents: { response: (Own) => (props) => (isProblem(props) ? error(element, props) : element(Own, props)) },
    statePlugins: { spec: { wrapSelectors: { allowTryItOutFor } } },
});

const NAMES = [
    ["textarea.body-param__text", () => "Body"],
    ["select.examples-select-element", () => "Example"],
    ["select.content-type", () => "Media type"],
    [".copy-to-clipboard button", () => "Copy"],
    ["tr[data-param-name] :is(select, input)", (control) => control.closest("tr").dataset.paramName],
];

/** Swagger UI leaves some controls without a name, and code that scrolls out of the reach of the keyboard. */
function nameControls() {
    for (const [selector, name] of NAMES) {
        for (const own of place.querySelectorAll(`:is(${selector}):not([aria-label])`)) own.ariaLabel = name(own);
    }
    for (const code of place.querySelectorAll("pre.microlight:not([tabindex])")) code.tabIndex = 0;
}

new MutationObserver(nameControls).observe(place, { childList: true, subtree: true });
const ui = globalThis.SwaggerUIBundle({
    url: new URL(place.dataset.document, location.href).href,
    domNode: place,
    tryItOutEnabled: true,
    defaultModelsExpandDepth: -1, // each operation shows its schemas; a list of all of them doubles the time to draw
    displayRequestDuration: true,
    validatorUrl: null,
    plugins: [ours],
    onComplete: () => key() && ui.specSelectors.securityDefinitions() && ui.preauthorizeApiKey("bearer", key()),
});
