// The kernel browser. Its data is unpacked when it is first looked at.

const ROOT2 = Math.SQRT2, EDGES_ABOVE_ROOT2 = 5, PAGE = 50;
const BINS = JSON.parse(one("#bins").textContent);
const browser = { ready: null, data: null, order: [], shown: 0 };

async function unpack() {
  const bytes = Uint8Array.from(atob(one("#kernel-data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  browser.data = await new Response(stream).json();
  const { names, forecasts } = browser.data;
  fill("#pair-task", names.task, "all");
  fill("#pair-split", names.split, "all");
  fill("#pair-class", names.operator_class.map((c) => c || ""), "all");
  fill("#pair-forecast", Object.keys(forecasts));
}

function fill(selector, values, none) {
  const kept = values.filter((value) => value).sort();
  if (none) one(selector).append(element("option", { value: "" }, none));
  for (const value of kept) one(selector).append(element("option", { value }, value.replaceAll("_", " ")));
}

function prepareKernels() {
  for (const select of all("#kernels select")) select.addEventListener("input", listPairs);
  one("#pair-more").addEventListener("click", morePairs);
}

function showKernels(id) {
  browser.ready = browser.ready || unpack();
  browser.ready.then(() => (id ? showPair(id) : listPairs()), (problem) => {
    one("#pair-count").textContent = `The kernels cannot be unpacked: ${problem.message}`;
  });
}

// ---- the list ----

const named = (column, i) => browser.data.names[column][browser.data.pairs[column][i]];
const forecastOf = (name, i) => (browser.data.forecasts[name] || [])[i] || null;
const above = (p) => p.slice(EDGES_ABOVE_ROOT2).reduce((a, b) => a + b, 0) / 1000;
const topBin = (p) => p.indexOf(Math.max(...p));
const percent = (x) => `${Math.round(100 * x)}%`;
const speed = (x) => (x === null ? "–" : x.toFixed(3));

// The ranked probability score against the label's distribution, less its least: what the list is ordered by.
function loss(p, q) {
  let a = 0, b = 0, sum = 0;
  for (let k = 0; k < BINS.length - 1; k += 1) {
    a += p[k] / 1000;
    b += q[k] / 1000;
    sum += (a - b) ** 2;
  }
  return sum / (BINS.length - 1);
}

function matches(i) {
  for (const [selector, column] of [["#pair-task", "task"], ["#pair-split", "split"], ["#pair-class", "operator_class"]]) {
    if (one(selector).value && named(column, i) !== one(selector).value) return false;
  }
  const s = browser.data.pairs.speedup[i];
  return {
    "": true, failed: s === null, discovery: s !== null && s > ROOT2,
    faster: s !== null && s > 1 && s <= ROOT2, slower: s !== null && s <= 1,
  }[one("#pair-outcome").value];
}

function listPairs() {
  const { pairs, label } = browser.data, who = one("#pair-forecast").value, order = one("#pair-order").value;
  const found = pairs.pair_id.map((_, i) => i).filter(matches);
  const key = (i) => {
    const s = pairs.speedup[i];
    if (s === null) return -Infinity;
    if (order === "fast") return s;
    if (order === "slow") return -s;
    const p = forecastOf(who, i);
    return p ? loss(p, label[i]) : Infinity;
  };
  browser.order = found.map((i) => [key(i), i]).sort((a, b) => (b[0] === a[0] ? a[1] - b[1] : b[0] - a[0])).map((x) => x[1]);
  one("#pair-list tbody").replaceChildren();
  browser.shown = 0;
  morePairs();
}

function morePairs() {
  const { pairs } = browser.data, who = one("#pair-forecast").value;
  const next = browser.order.slice(browser.shown, browser.shown + PAGE);
  for (const i of next) {
    const p = forecastOf(who, i), id = pairs.pair_id[i];
    const failed = pairs.speedup[i] === null;
    one("#pair-list tbody").append(element("tr", {},
      element("th", { scope: "row" }, element("a", { href: `#pair-${id}` }, element("code", {}, id))),
      element("td", {}, named("task", i)), element("td", {}, named("operator_class", i) || "–"),
      element("td", { class: "num" }, failed ? `failed: ${named("child_status", i)}` : speed(pairs.speedup[i])),
      element("td", {}, p ? `${percent(p[topBin(p)] / 1000)} on ${BINS[topBin(p)]}` : "no answer"),
      element("td", { class: "num" }, p ? percent(above(p)) : "–")));
  }
  browser.shown += next.length;
  one("#pair-more").hidden = browser.shown >= browser.order.length;
  one("#pair-count").textContent = `${browser.shown} of ${browser.order.length} pairs shown`;
}

// ---- one pair ----

function showPair(id) {
  const { pairs, sources, label, forecasts } = browser.data, i = pairs.pair_id.indexOf(id), view = one("#pair-view");
  one("#pair h1").replaceChildren("Pair ", element("code", {}, id));
  if (i < 0) {
    view.replaceChildren(element("p", {}, "There is no such pair in the test splits of this dataset."));
    return;
  }
  const s = pairs.speedup[i], us = pairs.parent_us_geomean[i];
  const stat = (value, words) => element("div", {}, element("span", { class: "num-big" }, value),
    element("span", { class: "muted" }, words));
  const stats = element("div", { class: "stats" });
  if (s === null) stats.append(stat(named("child_status", i), "the child failed, so there is no speedup"));
  else {
    stats.append(stat(speed(s), `measured S, 95% interval ${speed(pairs.speedup_low[i])} to ${speed(pairs.speedup_high[i])}`));
    if (us !== null) stats.append(stat(`${(us / s).toPrecision(4)} µs`, "child, geometric mean over cases"));
  }
  if (us !== null) stats.append(stat(`${us.toPrecision(4)} µs`, "parent, geometric mean over cases"));
  const facts = element("dl", { class: "facts" });
  for (const [term, value] of [["Task", named("task", i)], ["Split", named("split", i).replaceAll("_", " ")],
    ["Search", named("search_id", i)], ["Edit", `${named("operator", i) || "–"} (${named("operator_class", i) || "–"})`],
    ["Parent", pairs.parent_id[i]], ["Child", pairs.child_id[i]]]) {
    facts.append(element("dt", {}, term), element("dd", {}, value));
  }
  const parent = sources[pairs.parent_code[i]], child = sources[pairs.child_code[i]];
  view.replaceChildren(stats, facts, element("h2", {}, "Forecast against truth"), forecastPart(i, label[i]),
    forecastTable(Object.keys(forecasts), i, label[i]),
    element("h2", {}, "From parent to child"), codeBlock(difference(parent, child), "Difference of the two sources"),
    folded("Parent", parent), folded("Child", child));
}

function forecastPart(i, truth) {
  const who = one("#pair-forecast"), part = element("div"), bars = element("div", { class: "bins" });
  const names = Object.keys(browser.data.forecasts);
  const select = element("select", { id: "pair-who" }, ...names.sort().map((name) => element("option", { value: name }, name)));
  const draw = () => {
    const p = forecastOf(select.value, i);
    bars.replaceChildren(...BINS.flatMap((bin, b) => {
      const masses = element("span", { class: "pair" });
      const words = [];
      for (const [mass, kind] of [[p, "forecast"], [truth, "truth"]]) {
        if (!mass) continue;
        words.push(`${kind} ${percent(mass[b] / 1000)}`);
        masses.append(element("span", { class: `mass ${kind}`, style: `width:${mass[b] / 10}%` }));
      }
      masses.setAttribute("role", "img");
      masses.setAttribute("aria-label", words.join(", ") || "nothing");
      return [element("span", { class: "label" }, bin), masses];
    }));
  };
  select.value = who.value || names[0];
  select.addEventListener("input", () => { who.value = select.value; draw(); });
  draw();
  part.append(element("label", { class: "field" }, "Forecast of", select), bars,
    element("p", { class: "muted" }, element("span", { class: "swatch truth" }), "measured, with its noise",
      element("span", { class: "swatch" }), "forecast"));
  return part;
}

function forecastTable(names, i, truth) {
  const head = element("tr", {}, element("th", { scope: "col" }, "submission"), element("th", { scope: "col" }, "most probable bin"),
    element("th", { scope: "col", class: "num" }, "P(S > √2)"), element("th", { scope: "col", class: "num" }, "rps_excess"));
  const body = element("tbody");
  for (const name of names.sort()) {
    const p = forecastOf(name, i);
    body.append(element("tr", {}, element("th", { scope: "row" }, element("a", { href: `#submission-${name}` }, name)),
      element("td", {}, p ? `${percent(p[topBin(p)] / 1000)} on ${BINS[topBin(p)]}` : "no answer"),
      element("td", { class: "num" }, p ? percent(above(p)) : "–"),
      element("td", { class: "num" }, p && truth ? loss(p, truth).toFixed(3) : "–")));
  }
  const table = element("table", { class: "small" }, element("caption", {}, element("span", {}, "All forecasts of this pair")),
    element("thead", {}, head), body);
  return element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "All forecasts of this pair" }, table);
}

// ---- sources ----

// The lines of two texts as [mark, line]: a longest common subsequence by dynamic programming between their common ends.
function difference(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  let start = 0, end = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const x = a.slice(start, a.length - end), y = b.slice(start, b.length - end), wide = y.length + 1;
  const best = new Uint32Array((x.length + 1) * wide);
  for (let i = x.length - 1; i >= 0; i -= 1) {
    for (let j = y.length - 1; j >= 0; j -= 1) {
      best[i * wide + j] = x[i] === y[j] ? best[(i + 1) * wide + j + 1] + 1
        : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
    }
  }
  const lines = a.slice(0, start).map((line) => [" ", line]);
  for (let i = 0, j = 0; i < x.length || j < y.length;) {
    if (i < x.length && j < y.length && x[i] === y[j]) { lines.push([" ", x[i]]); i += 1; j += 1; }
    else if (j === y.length || (i < x.length && best[(i + 1) * wide + j] >= best[i * wide + j + 1])) lines.push(["−", x[i++]]);
    else lines.push(["+", y[j++]]);
  }
  lines.push(...a.slice(a.length - end).map((line) => [" ", line]));
  return folding(lines);
}

// Leaves out unchanged lines that are more than three lines away from a change.
function folding(lines) {
  const near = 3, kept = lines.map(() => false);
  lines.forEach(([mark], at) => {
    if (mark !== " ") for (let k = Math.max(0, at - near); k <= Math.min(lines.length - 1, at + near); k += 1) kept[k] = true;
  });
  if (!kept.includes(true)) return [["⋯", "The two sources are equal as a surrogate sees them."]];
  const folded = [];
  for (let at = 0; at < lines.length;) {
    let next = at;
    while (next < lines.length && kept[next] === kept[at]) next += 1;
    if (kept[at] || next - at === 1) folded.push(...lines.slice(at, next));
    else folded.push(["⋯", `${next - at} unchanged lines`]);
    at = next;
  }
  return folded;
}

function codeBlock(lines, label) {
  const kinds = { "+": ["ins", "added"], "−": ["del", "removed"], "⋯": ["span", "skipped"] };
  const pre = element("pre", {}, ...lines.map(([mark, line]) => {
    const [tag, kind] = kinds[mark] || ["span", "same"];
    return element(tag, { class: `line ${kind}`, "data-mark": mark }, line);
  }));
  return element("div", { class: "code", role: "region", tabindex: "0", "aria-label": label }, pre);
}

function folded(title, source) {
  return element("details", {}, element("summary", {}, `${title}, whole`),
    codeBlock(source.split("\n").map((line) => [" ", line]), title));
}
