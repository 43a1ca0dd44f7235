// Swagger UI: errors in one line each, streams without "Try it out", and the key that this tab has been given.

import { root } from "./api.js";
import { key } from "./key.js";

const place = document.getElementById("swagger");

/** What an error status means, with a link to its problems in place of the same example under every route. */
function errorRow(React, props) {
    const code = String(props.code);
    const meaning = props.response.get("description");
    const link = React.createElement("a", { href: new URL(`problems#${code}`, root).href }, "problems");
    return React.createElement(
        "tr",
        { className: "response problem", "data-code": code },
        React.createElement("td", { className: "response-col_status" }, code),
        React.createElement("td", { className: "response-col_description" }, meaning, ": ", link),
    );
}

function isProblem(props) {
    const kinds = props.response.get("content");
    return Number(props.code) >= 400 && (!kinds || kinds.has("application/problem+json"));
}

const ours = ({ React }) => ({
    wrapComponents: {
        response: (Response) => (props) => (
            isProblem(props) ? errorRow(React, props) : React.createElement(Response, props)
        ),
    },
    statePlugins: {
        spec: {
            wrapSelectors: {
                allowTryItOutFor: (allowed, system) => (state, path, method) => (
                    !system.specSelectors.specJson().getIn(["paths", path, method, "x-stream"])
                    && allowed(state, path, method)
                ),
            },
        },
    },
});

function followTheme() {
    const page = document.documentElement;
    const apply = () => { page.classList.toggle("dark-mode", page.dataset.theme === "dark"); };
    new MutationObserver(apply).observe(page, { attributes: true, attributeFilter: ["data-theme"] });
    apply();
}

const NAMES = [
    ["textarea.body-param__text", "Body"],
    ["select.examples-select-element", "Example"],
    ["select.content-type", "Media type"],
    [".copy-to-clipboard button", "Copy"],
];

/** Swagger UI leaves some controls without a name, and code that scrolls out of the reach of the keyboard. */
function nameControls() {
    const apply = () => {
        for (const [selector, name] of NAMES) {
            for (const control of place.querySelectorAll(`${selector}:not([aria-label])`)) {
                control.setAttribute("aria-label", name);
            }
        }
        for (const control of place.querySelectorAll("tr[data-param-name] :is(select, input):not([aria-label])")) {
            control.setAttribute("aria-label", control.closest("tr").dataset.paramName);
        }
        for (const code of place.querySelectorAll("pre.microlight:not([tabindex])")) {
            code.tabIndex = 0;
        }
    };
    new MutationObserver(apply).observe(place, { childList: true, subtree: true });
}

followTheme();
nameControls();
const ui = globalThis.SwaggerUIBundle({
    url: new URL(place.dataset.document, location.href).href,
    domNode: place,
    tryItOutEnabled: true,
    defaultModelsExpandDepth: -1, // each operation shows its schemas; a list of all of them doubles the time to draw
    displayRequestDuration: true,
    validatorUrl: null,
    plugins: [ours],
    onComplete: () => {
        if (key() && ui.specSelectors.securityDefinitions()) {
            ui.preauthorizeApiKey("bearer", key());
        }
    },
});
