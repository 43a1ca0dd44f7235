// Tabs: one panel at a time. Which one stands in the address, as its fragment; that of a part shows the panel it is in.

import { byId } from "./dom.js";

/** Make tabs of the buttons in `list`; each names its panel by aria-controls, and its fragment by data-tab. */
export function tabs(list) {
    const all = [...list.children];
    const panelOf = (tab) => byId(tab.getAttribute("aria-controls"));
    const show = (picked) => {
        for (const tab of all) {
            tab.setAttribute("aria-selected", String(tab === picked));
            tab.tabIndex = tab === picked ? 0 : -1;
            panelOf(tab).hidden = tab !== picked;
        }
    };
    const pick = (tab) => {
        show(tab);
        tab.focus();
        const fragment = tab === all[0] ? location.pathname + location.search : `#${tab.dataset.tab}`;
        history.replaceState(history.state, "", fragment);
    };
    const follow = () => {
        const wanted = location.hash.slice(1);
        const part = byId(wanted);
        const holds = (tab) => tab.dataset.tab === wanted || (part && panelOf(tab).contains(part));
        const found = all.find(holds) ?? all[0];
        show(found);
        if (part && found.dataset.tab !== wanted) part.scrollIntoView();
    };
    list.addEventListener("click", ({ target }) => all.includes(target) && pick(target));
    list.addEventListener("keydown", (event) => {
        const at = all.indexOf(document.activeElement);
        const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
        if (at < 0 || to === undefined) return;
        event.preventDefault();
        pick(all.at(to % all.length));
    });
    addEventListener("hashchange", follow);
    follow();
}
