// The API key of this tab, and the dialog that asks for it.

import { byId } from "./dom.js";

const NAME = "onepass.key";
const dialog = byId("key-dialog");
let asking = null;

byId("key-forget").addEventListener("click", () => dialog.close("forget"));
byId("key-cancel").addEventListener("click", () => dialog.close());

/** The key, or null where none was given. */
export const key = () => sessionStorage.getItem(NAME);

/** The header of a call in a shell, which holds no secret; empty where no key is used. */
export const keyHeader = () => (key() === null ? "" : ' -H "Authorization: Bearer $ONEPASS_API_KEY"');

/** Ask for a key, once for all who ask meanwhile; resolves to whether there is another key than before. */
export function askForKey(reason) {
    asking ??= answered(reason).finally(() => { asking = null; });
    return asking;
}

async function answered(reason) {
    byId("key-reason").textContent = reason;
    byId("key-input").value = "";
    byId("key-forget").hidden = key() === null;
    dialog.returnValue = ""; // as Escape leaves it
    dialog.showModal();
    await new Promise((closed) => dialog.addEventListener("close", closed, { once: true }));
    if (dialog.returnValue === "forget") sessionStorage.removeItem(NAME);
    if (dialog.returnValue === "use") sessionStorage.setItem(NAME, byId("key-input").value.trim());
    byId("key-button").hidden = key() === null;
    return dialog.returnValue !== "";
}
