/**
 * The page of one model: its parts, each told of the documents it shows.
 */

import { challengers } from "./challengers.js";
import { configuration } from "./configuration.js";
import { ModelDocuments } from "./documents.js";
import { drift } from "./drift.js";
import { features } from "./features.js";
import { hand } from "./hand.js";
import { head } from "./head.js";
import { learner } from "./learner.js";
import { log } from "./log.js";
import { pending } from "./pending.js";
import { quality } from "./quality.js";
import { showRights } from "./rights.js";
import { score } from "./score.js";
import { snapshots } from "./snapshots.js";
import { stateShown } from "./state.js";

const PARTS = [
    head,
    score,
    hand,
    quality,
    learner,
    features,
    drift,
    challengers,
    configuration,
    pending,
    snapshots,
    log,
];

const name = decodeURIComponent(location.pathname.split("/").pop());
const model = new ModelDocuments(name);
for (const part of PARTS) part(model);
let rights = null;
model.when(["model"], () => (rights ??= showRights())); // once a key has been given where one is asked for
model.follow(stateShown(model));
