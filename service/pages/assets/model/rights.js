// What the key in use allows: parts that need more are left out (model.css), and a sentence says why.

import { json } from "../api.js";
import { h } from "../dom.js";

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
