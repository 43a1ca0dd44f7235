// Runs before the first paint: light or dark, as chosen on this device, else as the system has it.
"use strict";
(() => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const apply = () => {
        let chosen = null;
        try {
            chosen = localStorage.getItem("onepass.theme");
        } catch {
            // Storage is switched off: the system decides.
        }
        document.documentElement.classList.toggle("dark-mode", chosen ? chosen === "dark" : system.matches);
    };
    apply();
    system.addEventListener("change", apply);
    addEventListener("storage", apply);
})();
