// A page to read: its calls work as they are copied, and its contents are folded on a phone.

import { callable } from "./copy.js";
import { byId } from "./dom.js";

callable(document);
if (byId("contents") && matchMedia("(max-width: 860px)").matches) byId("contents").open = false;
