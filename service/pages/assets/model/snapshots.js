/**
 * Snapshots: kept states that can be restored.
 */

import { json } from "../api.js";
import { number } from "../charts.js";
import { fill, h } from "../dom.js";
import { ago } from "../format.js";
import { actionButton, confirmed, sayer } from "./actions.js";
import { needing } from "./rights.js";
import { bytes, rowsText, when } from "./words.js";

/**
 * Fill the part of snapshots.
 *
 * @param {import("./documents.js").ModelDocuments} model
 */
export function snapshots(model) {
    const place = document.getElementById("snapshots-inside");
    const said = sayer();
    const list = h("div");
    const take = async () => {
        await json(model.path("snapshots"), { method: "POST" });
        await model.refresh("snapshots");
    };
    fill(place, list, said, needing("admin", actionButton("Take a snapshot", take, { kind: ".small", said })));
    model.when(["snapshots"], ({ snapshots: shown }) => fill(list, table(model, shown.snapshots, said)));
}

function table(model, kept, said) {
    if (!kept.length) return h("p.quiet.small", "None is kept yet; they are taken by themselves as the log grows.");
    return h("ul.plain-list", { "aria-label": "Snapshots, newest first" },
        kept.map((own) =>
            h("li",
                h("span.grow",
                    `Version ${number(own.version)}`,
                    h("span.sub", { title: when(own.time) },
                        `${rowsText(own.rows)}, ${bytes(own.bytes)}, ${ago(own.time)}`,
                    ),
                ),
                restoreButton(model, own, said),
            ),
        ),
    );
}

function restoreButton(model, own, said) {
    const action = async () => {
        const text =
            `The model gets the state, rows, metrics, configuration and challengers it had at version ${own.version} ` +
            `(${rowsText(own.rows)}). What it has learned since is gone from it; the version goes on.`;
        if (!(await confirmed({ title: `Restore version ${own.version}?`, text, action: "Restore" }))) return;
        await json(model.path("restore"), { method: "POST", body: { version: own.version } });
        await model.refresh("model", "features", "challengers", "snapshots");
    };
    const name = `Restore version ${own.version}`;
    return actionButton("Restore", action, { kind: ".small.needs-admin", said, name });
}
