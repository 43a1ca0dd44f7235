// Calls that can be copied, and that name the service as it is reached from here.

import { root } from "./api.js";
import { copies } from "./copy.js";

const SHOWN = /(?:http:\/\/)?localhost:8000/g;

/** The service's address as a call needs it: without the slash at its end. */
const here = root.href.replace(/\/$/, "");

for (const code of document.querySelectorAll(".code")) {
    const text = code.querySelector("code");
    const button = code.querySelector(".copy");
    text.textContent = text.textContent.replace(SHOWN, here);
    copies(button);
    button.hidden = false;
}

const contents = document.getElementById("contents");
if (contents && matchMedia("(max-width: 860px)").matches) contents.open = false;
