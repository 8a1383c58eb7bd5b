// Keys, switches, light and dark, and the start.
const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  ArrowRight: () => step(1),
  ArrowLeft: () => step(-1),
  "/": () => byId("search").focus(),
  o: () => {
    byId("only").checked = !byId("only").checked;
    drawText();
  },
  t: turnTheme,
};
const IN_LIST = {
  ArrowDown: () => step(1),
  ArrowUp: () => step(-1),
  Home: () => step(-DOCUMENTS.length),
  End: () => step(DOCUMENTS.length),
};
const dark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

function nameTheme() {
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", isDark() ? "Change to light" : "Change to dark");
}

function turnTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target;
  if (at.id === "search" && event.key === "Escape") {
    if (at.value) clearSearch();
    else byId("list").focus();
    return;
  }
  const busy = at.matches("input:not([type=checkbox]), select, .wide"); // these have a use for keys themselves
  const act = (at.id === "list" && IN_LIST[event.key]) || (byId("keys").checked && !busy && KEYS[event.key]);
  if (!act) return;
  event.preventDefault();
  act();
}

function clearSearch() {
  byId("search").value = "";
  filter();
}

function start() {
  fillChoices();
  byId("scriptless").hidden = true;
  byId("explorer").hidden = false;
  byId("theme").hidden = false;
  let waiting = 0;
  for (const name of FILTERS) {
    byId(name).addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(filter, name === "search" ? 120 : 0);
    });
  }
  byId("list").addEventListener("click", (event) => {
    const row = event.target.closest("li");
    if (row) open(DOCUMENTS[row.dataset.place]);
  });
  byId("clear").addEventListener("click", () => {
    clearFilters();
    byId("search").focus();
  });
  byId("before").addEventListener("click", () => step(-1));
  byId("after").addEventListener("click", () => step(1));
  byId("only").addEventListener("change", drawText);
  byId("theme").addEventListener("click", turnTheme);
  dark.addEventListener("change", nameTheme);
  addEventListener("keydown", onKey);
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => unfold(true));
  addEventListener("afterprint", () => unfold(false));
  nameTheme();
  filter();
  follow();
}

// Paper cannot be unfolded.
function unfold(all) {
  for (const folded of document.querySelectorAll("details")) {
    if (all && !folded.open) folded.dataset.folded = "";
    if (all) folded.open = true;
    else if ("folded" in folded.dataset) {
      folded.open = false;
      delete folded.dataset.folded;
    }
  }
}

start();
