"use strict";
// The page of `freshstack label`. Texts of others become text nodes and nothing else, character by
// character, so that a place among them is a place in the text.

const token = new URLSearchParams(location.search).get("token");
const $ = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

let state = null; // of all tasks, as the server says
const isJudged = () => Boolean(state?.techniques); // a collection's judgments, and no tasks: see judged.js
let number = 0; // of the task that is shown
let task = null;
let draft = null; // what is said of it: {label, evidence, note, rows}
let isBusy = false; // while a label is on its way
let later = null; // what to look at after that
let showsJudge = false;
const loaded = new Map(); // by number, the promise of a task
const drafts = new Map(); // by number, of the tasks that were shown

// Talking to the server

async function ask(path, sent) {
  const headers = { "X-Token": token };
  const how = sent === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(sent) };
  let reply;
  try {
    reply = await fetch(path, how);
  } catch {
    throw new Error("The server does not answer, and this was not saved. Start freshstack label again and open the address that it prints; what was saved before is in the file.");
  }
  if (state && sent !== undefined) state.isStale = reply.status === 409; // the file is not as it was left
  const found = await reply.json();
  if (!reply.ok) throw new Error(found.error);
  return found;
}

/** Do one thing at a time; what is pressed meanwhile is not meant for the task that comes next. */
async function alone(work) {
  if (isBusy) return;
  isBusy = true;
  $("alert").hidden = true;
  try {
    await work();
  } catch (error) {
    $("alert").textContent = error.message;
    $("status").textContent = "";
    if (task) renderProgress();
    $("alert").hidden = false;
  }
  isBusy = false;
  if (later) {
    const wanted = later;
    later = null;
    await alone(wanted);
  }
}

/** Do what writes nothing: where something is under way, after that, and of several the last. */
function inTurn(work) {
  if (isBusy) later = work;
  else alone(work);
}

function load(wanted) {
  if (wanted === null || wanted < 0 || wanted >= state.total) return null;
  if (!loaded.has(wanted)) {
    const promise = ask(`api/tasks/${wanted}`);
    promise.catch(() => loaded.delete(wanted));
    loaded.set(wanted, promise);
  }
  return loaded.get(wanted);
}

// Texts

function pieceOf([style, text]) {
  if (!style) return text;
  if (style === "url") {
    return make("a", { href: text, target: "_blank", rel: "noreferrer noopener", draggable: false }, text);
  }
  const piece = make("span", { className: style }, text);
  if (style === "control") {
    const points = [...text].map((one) => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
    piece.dataset.code = points.length > 3 ? `${points[0]} ×${points.length}` : points.join(" ");
  }
  return piece;
}

function fill(parent, blocks) {
  const prose = blocks.some(([isCode]) => !isCode);
  parent.className = `text ${prose ? "prose-text" : "code"}`;
  parent.replaceChildren(
    ...blocks.map(([isCode, pieces]) => make("span", { className: isCode ? "block code" : "block" }, ...pieces.map(pieceOf))),
  );
}

function textBox({ title, below, blocks, left, language }, place) {
  const box = make("div", { id: `text-${place}`, lang: language });
  fill(box, blocks);
  const article = make("article", {}, make("h2", { className: "place" }, title));
  if (below) article.append(make("p", { className: "below" }, below));
  article.append(box);
  if (left) {
    const more = make("button", {}, `Show all: ${left.toLocaleString("en")} more characters`);
    more.onclick = () => alone(async () => {
      const whole = await ask(`api/tasks/${number}?whole=1`);
      fill(box, whole.texts[place].blocks);
      more.remove();
      paint();
    });
    article.append(more);
  }
  return article;
}

// Places: the server counts characters, JavaScript counts most emoji as two

const isWide = (text) => /[\u{10000}-\u{10ffff}]/u.test(text);
const toCharacters = (text, units) => (isWide(text) ? [...text.slice(0, units)].length : units);
const toUnits = (text, characters) => (isWide(text) ? [...text].slice(0, characters).join("").length : characters);

function unitsBefore(root, node, offset) {
  const range = document.createRange();
  range.selectNodeContents(root);
  if (range.comparePoint(node, offset) < 0) return 0;
  if (range.comparePoint(node, offset) > 0) return root.textContent.length;
  range.setEnd(node, offset);
  return range.toString().length;
}

function rangeOf(root, start, end) {
  const range = document.createRange();
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  let done = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const next = done + node.length;
    if (start >= done && start < next) range.setStart(node, start - done);
    if (end > done && end <= next) {
      range.setEnd(node, end - done);
      return range;
    }
    done = next;
  }
  return null;
}

/** The range of a span of characters of the text that is labelled. */
function rangeAt([start, end]) {
  const text = $("text-0").textContent;
  return rangeOf($("text-0"), toUnits(text, start), toUnits(text, end));
}

// Evidence

const hasVerdict = () => task && (task.kind === "support" || task.kind === "answerability") && (!isJudged() || isCorrecting);
const takesEvidence = () => task && (task.kind === "report" || hasVerdict());

function selected() {
  const selection = getSelection();
  const root = $("text-0");
  if (!takesEvidence() || !selection.rangeCount || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  if (!range.intersectsNode(root)) return null;
  const text = root.textContent;
  let start = unitsBefore(root, range.startContainer, range.startOffset);
  let end = unitsBefore(root, range.endContainer, range.endOffset);
  while (start < end && /\s/.test(text[start])) start += 1;
  while (start < end && /\s/.test(text[end - 1])) end -= 1;
  if (start === end) return null;
  const isWord = (place) => place >= 0 && place < text.length && /[\p{L}\p{N}_]/u.test(text[place]);
  while (isWord(start) && isWord(start - 1)) start -= 1;
  while (isWord(end - 1) && isWord(end)) end += 1;
  return [toCharacters(text, start), toCharacters(text, end)];
}

let pending = null; // what was selected last: a touch on a button ends the selection before it clicks

function markSelected() {
  if (!pending) return;
  let [start, end] = pending;
  pending = null;
  getSelection().removeAllRanges();
  const apart = draft.evidence.filter(([from, to]) => {
    if (to < start || from > end) return true;
    [start, end] = [Math.min(start, from), Math.max(end, to)];
    return false;
  });
  setEvidence([...apart, [start, end]].sort((one, other) => one[0] - other[0]));
}

function setEvidence(spans) {
  $("alert").hidden = true;
  draft.evidence = spans;
  paint();
  const isNo = task.kind === "report" && !draft.label; // which has no words that show it
  if (isDone() && !isNo) alone(saveAgain); // a label that is changed is written at once
}

// Marking by keyboard, a sentence or line of code at a time

let sentence = -1; // the place of the current one among `sentences`

function sentences() {
  const text = $("text-0").textContent;
  const parts = [...new Intl.Segmenter($("text-0").lang || "en", { granularity: "sentence" }).segment(text)];
  return parts.flatMap(({ index, segment }) => {
    const words = segment.trim();
    const start = index + segment.indexOf(words);
    return words ? [[toCharacters(text, start), toCharacters(text, start + words.length)]] : [];
  });
}

function moveSentence(step) {
  if (!takesEvidence()) return;
  const all = sentences();
  sentence = Math.max(0, Math.min(all.length - 1, sentence + step));
  paint();
  const range = all.length && rangeAt(all[sentence]);
  if (!range) return;
  const [{ top, bottom }, box] = [range.getBoundingClientRect(), $("reading").getBoundingClientRect()];
  if (top < box.top) $("reading").scrollBy(0, top - box.top - 40);
  else if (bottom > box.bottom) $("reading").scrollBy(0, bottom - box.bottom + 40);
}

/** Mark the selected words or the current sentence, or unmark the sentence. */
function markSentence() {
  if (!takesEvidence()) return;
  if (!pending) {
    const span = sentences()[sentence];
    if (!span) return;
    const apart = draft.evidence.filter(([start, end]) => start >= span[1] || end <= span[0]);
    if (apart.length < draft.evidence.length) {
      setEvidence(apart);
      return;
    }
    pending = span;
  }
  markSelected();
}

function paint() {
  const root = $("text-0");
  const highlight = (name, spans) => {
    if (!window.CSS?.highlights) return;
    CSS.highlights.set(name, new Highlight(...spans.map(rangeAt).filter(Boolean)));
  };
  highlight("evidence", takesEvidence() ? draft.evidence : isJudged() ? evidenceOfPeople() : []);
  highlight("judge", (draft.verdict && draft.verdict.evidence) || []);
  highlight("sentence", takesEvidence() && sentence >= 0 ? sentences().slice(sentence, sentence + 1) : []);
  $("clear").disabled = !draft.evidence.length;
  $("evidence-box").hidden = !draft.evidence.length || !takesEvidence();
  const points = [...root.textContent];
  $("evidence").replaceChildren(...draft.evidence.map((span) => {
    const remove = make("button", { ariaLabel: "Remove this evidence" }, "×");
    remove.onclick = () => setEvidence(draft.evidence.filter((one) => one !== span));
    return make("li", {}, make("span", {}, points.slice(...span).join("")), remove);
  }));
}

// One task

const isDone = () => state.done.includes(number);
const gradesOf = () => state.grades[task.kind] || [];

async function show(wanted) {
  const found = await load(wanted);
  if (!found) return;
  if (wanted !== number) current = 0; // of its nuggets the first
  const isSameText = task && task.kind === "report" && task.of_report.includes(wanted);
  [number, task] = [wanted, found];
  draft = drafts.get(wanted) || draftOf(found);
  drafts.set(wanted, draft);
  render(isSameText);
  if (isJudged()) {
    renderJudged();
    return;
  }
  await showVerdict();
  load(wanted + 1);
  load(nextToDo(wanted + 1));
}

function draftOf({ given, nuggets }) {
  const first = given[0] || {};
  const label = first.kind === "answer" ? Number(first.agrees) : first.label;
  return { label, evidence: first.evidence || [], note: first.note || "", rows: rowsOf(given, nuggets) };
}

/** Show the task; a text that is read already stays where it is. */
function render(isSameText = false) {
  for (const id of ["title", "body", "nugget"]) $(id).lang = task.language;
  $("title").textContent = task.title;
  $("title").hidden = !task.title;
  $("nugget-box").hidden = !task.nugget.length;
  $("nugget-kind").textContent = task.kind === "report" || task.kind === "answerability" ? "Sub-question" : "Nugget";
  fill($("nugget"), task.nugget);
  fill($("body"), task.body);
  $("body-box").hidden = !task.body.length;
  $("note").value = draft.note;
  $("note-box").hidden = !draft.note || (isJudged() && !isCorrecting);
  const meanings = gradesOf().map((grade) => [grade.name ? `${grade.key} ${grade.name}` : grade.key, grade.meaning]);
  if (task.kind === "nuggets") meanings.push(...QUALITIES.map(([name, key, meaning]) => [`${key} ${name}`, meaning ?? `${task.source} says it.`]));
  $("meanings").replaceChildren(...pairs(meanings));
  if (!isSameText) $("texts").replaceChildren(...task.texts.map(textBox));
  if (task.kind === "nuggets") {
    $("meanings-box").after($("texts")); // the answer or passages next to the nuggets
    renderRows();
  } else {
    $("list").before($("texts"));
    $("list").replaceChildren();
  }
  const focused = focusedIn($("grades"));
  const choices = task.kind === "nuggets" ? [{ label: null, key: "Enter", name: "Save" }] : gradesOf();
  $("grades").replaceChildren(...choices.map(({ label, key, name, meaning = "" }) => {
    const button = make("button", { title: meaning, className: name && "named" }, make("kbd", {}, key), ` ${name}`);
    button.ariaPressed = String(isDone() && draft.label === label);
    button.onclick = () => alone(() => give(label));
    return button;
  }));
  $("grades").children[focused]?.focus();
  pending = null;
  if (!isSameText) sentence = -1;
  $("clear").hidden = !takesEvidence();
  $("judge").hidden = state.blind || isJudged() || !hasVerdict();
  for (const each of document.querySelectorAll(".seeing")) each.hidden = state.blind;
  const [place, total] = isJudged() ? [found.place, found.total] : [number, state.total];
  $("back").disabled = place === 0;
  $("forward").disabled = place === total - 1;
  if (!isSameText) {
    scrollTo(0, 0);
    for (const part of ["asked", "reading"]) $(part).scrollTop = 0;
  }
  paint();
  renderProgress();
}

function renderProgress() {
  if (isJudged()) {
    $("count").textContent = `${(found.place + 1).toLocaleString("en")} of ${found.total.toLocaleString("en")}`;
    return;
  }
  const { done, total, isStale } = state;
  $("progress").max = total;
  $("progress").value = isStale ? 0 : done.length;
  $("count").textContent = `${number + 1} of ${total} · ${isStale ? "?" : done.length} labelled`;
  const focused = focusedIn($("of-report"));
  $("of-report").hidden = !task.of_report.length;
  $("of-report").replaceChildren(...task.of_report.map((other, place) => {
    const isLabelled = done.includes(other);
    const button = make("button", { className: isLabelled ? "labelled" : "", ariaLabel: `Sub-question ${place + 1}${isLabelled ? ", labelled" : ""}` }, String(place + 1));
    button.ariaPressed = String(other === number);
    button.onclick = () => alone(() => show(other));
    return button;
  }));
  $("of-report").querySelectorAll("button")[focused]?.focus();
}

/** The number of the button that has the focus of the keyboard; what is drawn anew gets it back. */
const focusedIn = (parent) => [...parent.querySelectorAll("button")].findIndex((one) => one.matches(":focus-visible"));

const pairs = (rows) => rows.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]);

function nextToDo(from) {
  const done = new Set(state.done);
  for (let step = 0; step < state.total; step += 1) {
    const place = (from + step) % state.total;
    if (!done.has(place)) return place;
  }
  return null;
}

async function save(label) {
  const one = { kind: task.kind, note: draft.note };
  if (task.kind === "answer") one.agrees = label === 1;
  else Object.assign(one, { label, evidence: draft.evidence });
  if (task.kind === "report") {
    const points = [...$("text-0").textContent];
    one.evidence = label ? draft.evidence : [];
    one.marked = one.evidence.map((span) => points.slice(...span).join(""));
  }
  const seen = encodeURIComponent(task.given[0]?.time ?? "");
  const { given, replaced, ...progress } = await ask(`api/tasks/${number}?seen=${seen}`, task.kind === "nuggets" ? rowLabels() : [one]);
  Object.assign(state, progress);
  task.given = given;
  draft.label = label;
  if (task.kind === "report" && !label) draft.evidence = [];
  return replaced.length ? ` It was labelled elsewhere meanwhile${wordOf(replaced[0])}; both are in the file, and the last one, yours, counts.` : "";
}

async function saveAgain() {
  const changed = await save(draft.label);
  if (changed) $("status").textContent = changed.trim();
}

/** What another tab said of a task. */
function wordOf(label) {
  if (label.kind === "nugget_list") return "";
  const grade = gradesOf().find((one) => one.label === (label.kind === "answer" ? Number(label.agrees) : label.label));
  return grade ? `, as ${grade.key} ${grade.name || grade.meaning}` : "";
}

/** Save a label, and go on to the next task unless the judge's label is to be looked at. */
async function give(label) {
  if (task.kind === "report" && label && !draft.evidence.length) {
    throw new Error("Mark the words of the report that answer it, then say yes.");
  }
  const changed = await save(label);
  const grade = gradesOf().find((one) => one.label === label);
  const said = grade ? `${grade.key} ${grade.name || grade.meaning}` : "the list of nuggets";
  if (isJudged()) {
    await refresh(number, `Saved: ${said}. u takes it back.${changed}`);
    return;
  }
  const next = nextToDo(number + 1);
  const all = next === null ? ` All ${state.total} are labelled, in ${state.file}.` : "";
  await show(next === null || (showsJudge && hasVerdict()) ? number : next);
  $("status").textContent = `Saved: ${said}. u takes it back.${changed}${all}`;
}

async function undo() {
  const { number: undone, ...progress } = await ask("api/undo", {});
  Object.assign(state, progress);
  if (undone === null) {
    $("status").textContent = "There is nothing to undo.";
    return;
  }
  if (isJudged()) {
    await refresh(undone, "Your label, or the change of it, was taken back.");
    return;
  }
  const isChange = state.done.includes(undone);
  loaded.delete(undone);
  if (isChange) drafts.delete(undone);
  await show(undone);
  $("status").textContent = isChange ? "The change was taken back." : "The label was taken back.";
}

async function showVerdict() {
  $("judge").ariaPressed = String(showsJudge);
  draft.verdict = null;
  const box = $("verdict");
  if (showsJudge && hasVerdict() && isDone()) {
    const found = (draft.verdict = await ask(`api/tasks/${number}/verdict`));
    const grade = found && state.grades.support.find((one) => one.label === found.label);
    box.replaceChildren(make("b", {}, found ? `Judge: ${found.label} ${grade ? grade.name : ""}` : "The judge has no label of it."));
    if (found) box.append(make("p", {}, found.reason));
  }
  box.hidden = !draft.verdict;
  paint();
}

async function toggleJudge() {
  if (state.blind || !hasVerdict()) return;
  showsJudge = !showsJudge;
  if (showsJudge && !isDone()) $("status").textContent = "The judge's label is shown after yours; then → goes on.";
  await showVerdict();
}

// A list of nuggets

const QUALITIES = [
  ["precise", "p", "It is one fact, stated correctly and exactly."],
  ["grounded", "g", null], // by what it is from: task.source
  ["vital", "t", "A good answer must have it."],
];
let current = 0;

/** Rows: the text of a nugget, the ids that it was made from, and whether it is removed. */
function rowsOf(given, nuggets) {
  const quality = Object.fromEntries(nuggets.map((one) => [one.nugget_id, {}]));
  for (const label of given) {
    if (label.kind === "nugget") for (const [name] of QUALITIES) quality[label.nugget_id][name] = label[name];
  }
  const list = given.find((label) => label.kind === "nugget_list");
  const kept = list ? list.nuggets : nuggets;
  const rows = kept.map((one) => ({ ids: one.nugget_id ? [one.nugget_id] : one.made_from, text: one.text, vital: one.importance === "vital" }));
  const named = new Set(rows.flatMap((row) => row.ids));
  const gone = nuggets.filter((one) => !named.has(one.nugget_id));
  return { quality, list: [...rows, ...gone.map((one) => ({ ids: [one.nugget_id], text: one.text, removed: true }))] };
}

const isShared = (row) => row.ids.length !== 1 || draft.rows.list.filter((one) => one.ids.includes(row.ids[0])).length > 1;

function rowLabels() {
  const { list, quality } = draft.rows;
  for (const [id, said] of Object.entries(quality)) {
    if (QUALITIES.some(([name]) => said[name] === undefined)) {
      current = list.findIndex((row) => row.ids.includes(id));
      renderRows();
      throw new Error("Say of each nugget whether it is precise, grounded and vital; y says yes to all three.");
    }
  }
  const nuggets = list.filter((row) => !row.removed && row.text.trim()).map((row) => {
    const vital = row.ids.length ? row.ids.some((id) => quality[id].vital) : Boolean(row.vital);
    const shared = isShared(row);
    return {
      nugget_id: shared ? "" : row.ids[0], text: row.text.trim(),
      importance: vital ? "vital" : "okay", made_from: shared ? row.ids : [],
    };
  });
  const qualities = task.nuggets.map(({ nugget_id }) => ({ kind: "nugget", nugget_id, ...quality[nugget_id] }));
  return [{ kind: "nugget_list", nuggets, note: draft.note }, ...qualities];
}

function toggle(said, name, key) {
  const value = said[name] === undefined ? "" : said[name] ? "yes" : "no";
  const button = make("button", { className: "toggle" }, `${name} `, make("kbd", {}, key));
  button.dataset.value = value;
  button.ariaLabel = `${name}: ${value || "not said"}`;
  button.onclick = () => {
    said[name] = said[name] !== true;
    renderRows();
  };
  return button;
}

function renderRows() {
  $("alert").hidden = true;
  const { list, quality } = draft.rows;
  const given = Object.fromEntries(task.nuggets.map((one) => [one.nugget_id, one]));
  const listed = new Set();
  current = Math.max(0, Math.min(current, list.length - 1));
  const items = list.map((row, place) => {
    const area = make("textarea", { value: row.text, rows: Math.ceil(row.text.length / 70) || 1, ariaLabel: "Nugget", readOnly: Boolean(row.removed) });
    area.oninput = () => { row.text = area.value; };
    area.onfocus = () => { if (current !== place) { current = place; markCurrent(); } };
    const item = make("li", { className: row.removed ? "removed" : "" }, area);
    let tools = null;
    for (const id of row.ids.filter((one) => !listed.has(one))) {
      listed.add(id);
      const { text, passages } = given[id];
      if (row.text !== text) item.append(make("p", { className: "row-of" }, `from: ${text}`));
      if (passages.length) item.append(make("p", { className: "row-of" }, `from passage ${passages.join(", ")}`));
      tools = make("div", { className: "row-tools" }, ...QUALITIES.map(([name, key]) => toggle(quality[id], name, key)));
      item.append(tools);
    }
    if (!tools) item.append((tools = make("div", { className: "row-tools" })));
    if (!row.ids.length) tools.append(toggle(row, "vital", "t"));
    tools.append(make("span", { className: "space" }));
    for (const [name, key, work] of ROW_TOOLS) {
      const button = make("button", {}, `${row.removed && key === "x" ? "Restore" : name} `, make("kbd", {}, key));
      button.onclick = () => { current = place; work(); };
      tools.append(button);
    }
    return item;
  });
  const add = make("button", {}, "Add a nugget ", make("kbd", {}, "a"));
  add.onclick = addRow;
  const focused = focusedIn($("list"));
  $("list").replaceChildren(make("h2", {}, "Nuggets"), make("ol", { id: "rows" }, ...items), add);
  $("list").querySelectorAll("button")[focused]?.focus();
  markCurrent();
}

function markCurrent() {
  [...$("rows").children].forEach((item, place) => item.classList.toggle("current", place === current));
  $("rows").children[current]?.scrollIntoView({ block: "nearest" });
}

const editRow = () => $("rows").children[current]?.querySelector("textarea").focus();

function addRow() {
  draft.rows.list.push({ ids: [], text: "" });
  current = draft.rows.list.length - 1;
  renderRows();
  editRow();
}

function splitRow() {
  const row = draft.rows.list[current];
  if (!row || row.removed) return;
  const area = $("rows").children[current].querySelector("textarea");
  const inside = area.selectionStart > 0 && area.selectionStart < row.text.length;
  const middle = row.text.indexOf(" ", row.text.length / 2);
  const place = inside ? area.selectionStart : middle < 0 ? row.text.length : middle;
  const rest = { ...row, text: row.text.slice(place).trim() };
  row.text = row.text.slice(0, place).trim();
  draft.rows.list.splice(current + 1, 0, rest);
  renderRows();
  editRow();
}

function mergeRow() {
  const [above, row] = draft.rows.list.slice(Math.max(0, current - 1), current + 1);
  if (!row || row.removed || above.removed) return;
  above.text = `${above.text} ${row.text}`.trim();
  above.ids = [...new Set([...above.ids, ...row.ids])];
  draft.rows.list.splice(current, 1);
  current -= 1;
  renderRows();
  editRow();
}

function removeRow() {
  const row = draft.rows.list[current];
  if (!row) return;
  if (isShared(row) && row.ids.length < 2) draft.rows.list.splice(current, 1); // a new one, or a part
  else row.removed = !row.removed;
  renderRows();
}

const ROW_TOOLS = [["Split", "s", splitRow], ["Merge up", "m", mergeRow], ["Remove", "x", removeRow]];

function rowKey(key) {
  const row = draft.rows.list[current];
  const said = row && (row.ids.length ? draft.rows.quality[row.ids[0]] : row);
  const quality = QUALITIES.find((one) => one[1] === key);
  const tool = ROW_TOOLS.find((one) => one[1] === key);
  if (key === "ArrowDown" || key === "ArrowUp") {
    current = Math.max(0, Math.min(draft.rows.list.length - 1, current + (key === "ArrowDown" ? 1 : -1)));
    markCurrent();
  } else if (key === "y" && row) {
    for (const id of row.ids) for (const [name] of QUALITIES) draft.rows.quality[id][name] = true;
    current += 1;
    renderRows();
  } else if (quality && row && (row.ids.length || key === "t")) {
    said[quality[0]] = said[quality[0]] !== true;
    renderRows();
  } else if (tool) tool[2]();
  else if (key === "e") editRow();
  else if (key === "a") addRow();
  else return false;
  return true;
}

// Keys

function openNote() {
  $("note-box").hidden = false;
  $("note").focus();
}

function closeNote() {
  const note = $("note").value.trim();
  $("note-box").hidden = !note;
  $("note").blur();
  if (note === draft.note) return;
  draft.note = note;
  if (isDone()) alone(saveAgain);
  else $("status").textContent = "The note is saved with the label.";
}

const ACTIONS = {
  ArrowLeft: () => alone(() => show(number - 1)),
  ArrowRight: () => alone(() => show(number + 1)),
  ArrowUp: () => $("reading").scrollBy(0, -90),
  ArrowDown: () => $("reading").scrollBy(0, 90),
  Enter: () => alone(() => (task.kind === "nuggets" ? give(null) : show(nextToDo(number + (isDone() ? 1 : 0)) ?? number))),
  c: () => takesEvidence() && draft.evidence.length && setEvidence([]),
  j: () => moveSentence(1),
  k: () => moveSentence(-1),
  m: markSentence,
  n: openNote,
  u: () => alone(undo),
  v: () => alone(toggleJudge),
  "?": () => $("help").showModal(),
};

const actions = () => (isJudged() ? JUDGED_ACTIONS : ACTIONS);

function pressed(event) {
  const isTyping = event.target.matches("textarea");
  if (!state || !(task || isJudged()) || $("help").open || event.target.matches("select")) return;
  if (event.target.matches("[type=search]")) {
    if (event.key === "Enter" || event.key === "Escape") event.target.blur(); // and it is looked for
    return;
  }
  if (isTyping) {
    const isEnd = event.key === "Enter" && !event.shiftKey && !event.isComposing;
    const saves = isEnd && (event.ctrlKey || event.metaKey);
    if (isEnd) event.preventDefault();
    if (event.key === "Escape" || isEnd) event.target.blur();
    if (saves && task.kind === "nuggets") alone(() => give(null));
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" && event.target.matches("button, a, summary")) return;
  const grade = (!isJudged() || isCorrecting) && gradesOf().find((one) => one.key === event.key);
  const isScroll = event.key === "ArrowUp" || event.key === "ArrowDown";
  if (event.repeat && !isScroll) return;
  if (grade) alone(() => give(grade.label));
  else if (task?.kind === "nuggets" && rowKey(event.key)) event.preventDefault();
  else if (actions()[event.key]) {
    event.preventDefault();
    actions()[event.key]();
  }
}

async function start() {
  state = await ask("api/state");
  $("whose").textContent = [state.collection, state.annotator ?? "looking only"].join(" · ");
  $("instructions").textContent = state.instructions;
  const isLarge = matchMedia("(min-width: 60rem)").matches;
  if (isJudged()) {
    await startJudged(isLarge);
    return;
  }
  for (const box of ["body-box", "meanings-box"]) $(box).open = isLarge;
  await show(nextToDo(0) ?? 0);
}

document.addEventListener("keydown", pressed);
document.addEventListener("pointerup", (event) => {
  if (event.pointerType === "mouse") setTimeout(() => { pending = selected(); markSelected(); });
});
document.addEventListener("selectionchange", () => {
  const span = selected();
  if (span) pending = span;
  setTimeout(() => { $("mark").hidden = !selected(); }, span ? 0 : 400);
});
for (const [id, key] of [["note-open", "n"], ["judge", "v"], ["undo", "u"], ["back", "ArrowLeft"], ["forward", "ArrowRight"], ["clear", "c"], ["correct", "e"], ["help-open", "?"]]) {
  $(id).onclick = () => actions()[key]();
}
$("mark").onclick = markSelected;
$("note").onblur = closeNote;
alone(start);
