"use strict";
// Views, filters, sorting and colours. The page is whole without this script; it only hides and orders what is there.

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Returns a new element. Text goes in as text, never as markup: sources of kernels hold any character.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// ---- views: the part of the address behind # names one of them ----

function showView(focus) {
  const wanted = decodeURIComponent(location.hash.slice(1)) || "table";
  const id = wanted.startsWith("pair-") ? "pair" : wanted;
  const found = document.getElementById(id);
  const view = found && found.classList.contains("view") ? found : document.getElementById("table");
  for (const other of all(".view")) other.classList.toggle("open", other === view);
  const parent = { pair: "kernels", kernels: "kernels", about: "about" }[view.id] || "table";
  for (const link of all("nav a")) {
    if (link.dataset.view === parent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  let title = view.dataset.title;
  if (view.id === "pair") title = wanted.slice("pair-".length);
  document.title = `${title} · KernelCast leaderboard`;
  if (view.id === "kernels" || view.id === "pair") showKernels(view.id === "pair" ? title : null);
  if (focus) {
    window.scrollTo(0, 0);
    one("h1", view).focus({ preventScroll: true });
  }
}

// ---- the table ----

function chosen(name) {
  const input = one(`input[name="${name}"]:checked`);
  return input ? input.value : "";
}

function filterTable() {
  const information = one("#information").value;
  const name = one("#name").value.trim().toLowerCase();
  const references = one("#references").checked;
  document.body.classList.toggle("no-intervals", !one("#intervals").checked);
  let shown = 0, total = 0;
  for (const board of all(".board")) {
    const open = board.dataset.track === chosen("track") && board.dataset.split === chosen("split");
    board.classList.toggle("open", open);
    for (const body of all("tbody", board)) {
      const competing = body.dataset.group === "competitors";
      let left = 0;
      for (const row of all("tr[data-name]", body)) {
        const match = (!information || row.dataset.information === information)
          && row.dataset.name.toLowerCase().includes(name) && (competing || references);
        row.hidden = !match;
        left += match;
        if (open) { total += 1; shown += match; }
      }
      body.hidden = !left;
    }
  }
  const open = one(".board.open");
  one("#count").textContent = open
    ? `${shown} of ${total} submissions shown` : "The dataset has no rows of this track in this split.";
}

// Sorts the rows of each group by a column; what is undefined stays last, equal rows keep their order.
function sortBy(header) {
  const table = header.closest("table");
  const column = [...header.parentElement.children].indexOf(header);
  const before = header.getAttribute("aria-sort");
  const first = one("button", header).dataset.first;
  const other = first === "ascending" ? "descending" : "ascending";
  const order = before === first ? other : first;
  for (const cell of header.parentElement.children) cell.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  for (const body of table.tBodies) {
    const rows = all("tr[data-name]", body).map((row, place) => ({ row, place, key: row.children[column].dataset.value }));
    const numeric = rows.every(({ key }) => key === "" || !Number.isNaN(Number(key)));
    rows.sort((a, b) => {
      if (a.key === "" || b.key === "") return (a.key === "") - (b.key === "") || a.place - b.place;
      const difference = numeric ? Number(a.key) - Number(b.key) : a.key.localeCompare(b.key);
      return sign * difference || a.place - b.place;
    });
    body.append(...rows.map(({ row }) => row));
  }
}

// ---- colours ----

const THEMES = ["auto", "light", "dark"];

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = one("#theme");
  button.textContent = `Theme: ${theme}`;
}

function storedTheme() {
  // A browser may refuse storage to a page that is opened from a file.
  try { return THEMES.find((theme) => theme === localStorage.getItem("theme")) || "auto"; } catch { return "auto"; }
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme || "auto") + 1) % THEMES.length];
  setTheme(theme);
  try { localStorage.setItem("theme", theme); } catch { /* it is not remembered, and works all the same */ }
}

document.addEventListener("DOMContentLoaded", () => {
  setTheme(storedTheme());
  one("#theme").addEventListener("click", nextTheme);
  for (const input of all("#table .filters :is(input, select)")) input.addEventListener("input", filterTable);
  for (const header of all(".board thead th")) one("button", header).addEventListener("click", () => sortBy(header));
  filterTable();
  prepareKernels();
  showView(false);
  window.addEventListener("hashchange", () => showView(true));
});
