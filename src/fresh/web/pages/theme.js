// Light and dark mode, and the tabs.
import { byId, recall, remember } from "./api.js";

const THEME = "fresh-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

function nameTheme() {
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", isDark() ? "Switch to light mode" : "Switch to dark mode");
}

export function openTab(tab) {
  for (const each of document.querySelectorAll('[role="tab"]')) {
    const open = each === tab;
    each.setAttribute("aria-selected", open);
    each.tabIndex = open ? 0 : -1;
    byId(each.getAttribute("aria-controls")).hidden = !open;
  }
}

// The address holds the open tab, so that it is open after a reload.
function choose(tab) {
  openTab(tab);
  const parts = new URLSearchParams(location.hash.slice(1));
  parts.delete("tab");
  if (tab.id === "tab-batch") parts.set("tab", "file");
  history.replaceState(null, "", String(parts) ? `#${parts}` : location.pathname);
}

export function startTheme() {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  for (const [place, tab] of tabs.entries()) {
    tab.addEventListener("click", () => choose(tab));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const other = tabs[(place + 1) % tabs.length];
      choose(other);
      other.focus();
    });
  }
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    remember(THEME, document.documentElement.dataset.theme);
    nameTheme();
  });
  if (recall(THEME)) document.documentElement.dataset.theme = recall(THEME);
  dark.addEventListener("change", nameTheme);
  nameTheme();
}
