// The page of one model. Each part of it takes the model's documents and the place that it fills, and is told of the
// documents it shows.

import { byId } from "../dom.js";
import { poll } from "../poll.js";
import { tabs } from "../tabs.js";
import { showRights } from "./actions.js";
import { care } from "./care.js";
import { challengers } from "./challengers.js";
import { configuration } from "./configuration.js";
import { ModelDocuments } from "./documents.js";
import { drift } from "./drift.js";
import { features } from "./features.js";
import { Hand } from "./hand.js";
import { head, stateShown } from "./head.js";
import { learner } from "./learner.js";
import { quality } from "./quality.js";
import { log, pending, snapshots } from "./records.js";
import { score } from "./score.js";

const PARTS = {
    score, quality, learner, features, drift, challengers, configuration, care, pending, snapshots, log,
    hand: (documents, place) => new Hand(documents, place),
};

const model = new ModelDocuments(decodeURIComponent(location.pathname.split("/").pop()));
head(model);
for (const [name, part] of Object.entries(PARTS)) part(model, byId(`${name}-inside`));
tabs(byId("tabs"));
let rights = null;
model.when(["model"], () => (rights ??= showRights())); // once a key has been given where one is asked for
poll((signal) => model.look(signal), { onState: stateShown(model) });
