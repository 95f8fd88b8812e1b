"use strict";
// A collection's judgments, looked at on the page of page.js: found by filters, a query at a time.

const NO_LABEL = "none";
const FILTERS = { text: "filter-text", label: "filter-label", technique: "filter-technique", disputed: "filter-disputed" };
let queries = null; // those listed, as the server says: {total, first, rows}
let found = null; // the judgments of one query: {total, place, first, rows}
let isCorrecting = false;

const scale = () => state.grades.support;
const nameOf = (label) => {
  const grade = scale().find((one) => one.label === label);
  return label === null ? "no label" : `${label}${grade?.name ? ` ${grade.name}` : ""}`;
};
const option = (value, text) => make("option", { value, textContent: text });
const ending = (id) => (id.length > 36 ? `…${id.slice(-35)}` : id); // where ids differ
const rowOfQuery = () => queries.rows.findLastIndex((row) => row.place <= found.place);

function filters() {
  const chosen = new URLSearchParams();
  for (const [name, id] of Object.entries(FILTERS)) {
    const box = $(id);
    const value = box.type === "checkbox" ? (box.checked ? "1" : "") : box.value.trim();
    if (value) chosen.set(name, value);
  }
  return chosen;
}

/** Look at the judgment at a place among all that are found, or at one of a number, and list its query's. */
async function look(place, wanted = "") {
  found = await ask(`api/judgments/${Math.max(0, place)}?${filters()}&number=${wanted}`);
  document.body.classList.toggle("nothing", !found.total);
  if (!found.total) {
    task = null;
    for (const id of ["queries", "pairs"]) $(id).replaceChildren();
    $("count").textContent = "No judgment is so; leave out a filter.";
    return;
  }
  const groups = new Map();
  found.rows.forEach((row, at) => {
    if (!groups.has(row.nugget)) groups.set(row.nugget, make("optgroup", { label: row.nugget }));
    const people = row.people.length ? ` · people ${row.people.join(", ")}${row.disputed ? " ≠" : ""}` : "";
    groups.get(row.nugget).append(option(found.first + at, `${row.label ?? "–"}${people} · ${ending(row.chunk_id)}`));
  });
  const { first, end, rows } = found;
  $("pairs").replaceChildren(...around([...groups.values()], first - 1, first + rows.length, first > found.begin, first + rows.length < end));
  await lookAt(found.place);
}

/** Put ways to those before and after around a part of a list. */
function around(options, before, after, hasBefore, hasAfter) {
  return [...(hasBefore ? [option(before, "▲ those before")] : []), ...options, ...(hasAfter ? [option(after, "▼ those after")] : [])];
}

/** Look at a judgment of those that are listed. */
async function lookAt(place) {
  isCorrecting = false;
  found.place = place;
  loaded.clear();
  drafts.clear();
  await show(found.rows[place - found.first].number);
  $("pairs").value = String(place);
  await listQueries();
  const address = filters();
  address.set("place", place);
  history.replaceState(null, "", `?token=${encodeURIComponent(token)}&${address}`);
  const people = task.people.length + task.given.length;
  $("status").textContent = `Judge: ${nameOf(task.judged.label)}${people ? `; labels of people: ${people}` : ""}.`;
}

/** List the queries, if the one that is looked at is not among those that are listed. */
async function listQueries() {
  const last = queries?.rows.at(-1);
  if (!last || found.place < queries.rows[0].place || found.place >= last.place + last.count) {
    queries = await ask(`api/queries/${found.place}?${filters()}`);
    const { rows, first, total } = queries;
    const options = rows.map((row) => option(row.place, `${row.query_id} · ${row.count.toLocaleString("en")} · ${row.title}`));
    const after = rows.at(-1).place + rows.at(-1).count;
    $("queries").replaceChildren(...around(options, rows[0].place - 1, after, first > 0, first + rows.length < total));
  }
  $("queries").value = String(queries.rows[rowOfQuery()].place);
}

async function move(step) {
  const place = found.place + step;
  if (place < 0 || place >= found.total) $("status").textContent = step < 0 ? "This is the first." : "This is the last.";
  else if (found.rows[place - found.first]) await lookAt(place);
  else await look(place);
}

/** Go to the first judgment of the query after or before. */
async function moveQuery(step) {
  const { place, count } = queries.rows[rowOfQuery()];
  const next = step > 0 ? place + count : place - 1;
  if (next < 0 || next >= found.total) {
    $("status").textContent = step < 0 ? "This is the first query." : "This is the last query.";
    return;
  }
  await look(next);
  if (step < 0) await look(found.begin);
}

const chosen = () => inTurn(async () => {
  queries = null;
  await look(0);
});

// One judgment

const quotes = (spans) => {
  const points = [...$("text-0").textContent];
  return make("ul", { className: "quotes" }, ...spans.map((span) => make("li", {}, points.slice(...span).join(""))));
};

function said(who, label, words, spans) {
  const box = make("div", { className: "said" }, make("b", {}, `${who}: ${label}`));
  if (words) box.append(make("p", {}, words));
  if (spans.length) box.append(quotes(spans));
  return box;
}

const evidenceOfPeople = () => [...task.people, ...task.given].flatMap((one) => one.evidence);

/** Show what the judge and people say of the judgment. */
function renderJudged() {
  const { judged, people, given, pooled_by: ranks } = task;
  const mine = new Set(given.map((one) => one.annotator));
  const status = judged.label === null ? `${nameOf(null)} (${judged.status})` : nameOf(judged.label);
  const votes = judged.votes.length ? ` of votes ${judged.votes.map((one) => one.label ?? "–").join(", ")}` : "";
  const boxes = [said("Judge", status + votes, judged.reason, judged.evidence)];
  for (const one of [...people.filter(({ annotator }) => !mine.has(annotator)), ...given]) {
    boxes.push(said(one.annotator, nameOf(one.label), one.note, one.evidence));
    boxes.at(-1).classList.add(one.label === judged.label ? "same" : "other");
  }
  const pooled = Object.entries(ranks).map(([name, rank]) => `${name.replaceAll("_", " ")} ${rank}`);
  if (pooled.length) boxes.push(make("p", { className: "below" }, `Pooled by, at rank: ${pooled.join(", ")}`));
  if (judged.same_as) boxes.push(make("p", { className: "below" }, `Judged as ${judged.same_as}, which says the same`));
  $("verdict").replaceChildren(...boxes);
  $("verdict").hidden = false;
  draft.verdict = judged;
  renderCorrecting();
  paint();
  scrollToEvidence();
}

function scrollToEvidence() {
  const [span] = task.judged.evidence;
  const root = $("text-0");
  const range = span && rangeOf(root, toUnits(root.textContent, span[0]), toUnits(root.textContent, span[1]));
  const reading = $("reading");
  if (!range || reading.scrollHeight <= reading.clientHeight) return; // all is seen, or the window scrolls
  const { top } = range.getBoundingClientRect();
  reading.scrollTop += top - reading.getBoundingClientRect().top - reading.clientHeight / 3;
}

function renderCorrecting() {
  document.body.classList.toggle("correcting", isCorrecting);
  $("correct").hidden = !state.annotator;
  $("correct").ariaPressed = String(isCorrecting);
  for (const id of ["grades", "clear", "note-open"]) $(id).hidden = !isCorrecting;
}

async function correct() {
  if (!state.annotator || !task) return;
  isCorrecting = !isCorrecting;
  const focused = document.activeElement === $("correct");
  render();
  renderJudged();
  if (focused) $("correct").focus();
  $("status").textContent = isCorrecting ? "Give your label; e ends it without one." : "";
}

/** After a label of some number was written or taken back: show what is so now. */
async function refresh(wanted, text) {
  queries = null;
  await look(found.place, wanted);
  $("status").textContent = text;
}

function findAll() {
  $("finding").open = true;
  $("filter-text").focus();
}

const whenCorrecting = (key) => () => isCorrecting && ACTIONS[key]();
const JUDGED_ACTIONS = {
  ArrowLeft: () => inTurn(() => move(-1)),
  ArrowRight: () => inTurn(() => move(1)),
  q: () => inTurn(() => moveQuery(1)),
  Q: () => inTurn(() => moveQuery(-1)),
  e: () => inTurn(correct),
  f: findAll,
  c: whenCorrecting("c"),
  n: whenCorrecting("n"),
  Escape: () => isCorrecting && alone(correct),
  ...Object.fromEntries(["ArrowUp", "ArrowDown", "u", "?"].map((key) => [key, () => ACTIONS[key]()])),
};

async function startJudged(isLarge) {
  document.body.classList.add("judged");
  $("nugget-box").after($("verdict"));
  $("undo").hidden = !state.annotator;
  const asked = new URLSearchParams(location.search);
  $("filter-label").append(...scale().map(({ label }) => option(label, nameOf(label))), option(NO_LABEL, "no label"));
  $("filter-technique").append(...state.techniques.map((name) => option(name, name.replaceAll("_", " "))));
  for (const [name, id] of Object.entries(FILTERS)) {
    if ($(id).type === "checkbox") $(id).checked = asked.has(name);
    else $(id).value = asked.get(name) ?? "";
    $(id).onchange = chosen;
  }
  $("finding").hidden = false;
  $("finding").open = isLarge;
  for (const [id, size] of [["queries", 8], ["pairs", 16]]) {
    if (isLarge) $(id).size = size;
    $(id).onchange = () => {
      const place = Number($(id).value);
      inTurn(() => (found.rows[place - found.first] ? lookAt(place) : look(place)));
    };
  }
  await look(Number(asked.get("place")) || 0);
}
