
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const stage = document.getElementById("stage");
const page = document.getElementById("page");
const list = document.getElementById("list");
const search = document.getElementById("search");
const marks = new Map(); // region number -> its outline or card
const items = new Map(); // region number -> its list entry
let shown = data.regions.map((region) => region.number);
let selected = null;

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function colour(target, number) {
  const hue = Math.round((number * 137.508 + 210) % 360);
  target.style.setProperty("--colour", `hsl(${hue} 65% 38%)`);
  target.style.setProperty("--tint", `hsl(${hue} 75% 50% / .10)`);
  target.style.setProperty("--strong", `hsl(${hue} 75% 50% / .30)`);
  target.style.setProperty("--card", `hsl(${hue} 60% 96%)`);
}

function place(target, box) {
  const [width, height] = data.size;
  target.style.left = `${(100 * box[0]) / width}%`;
  target.style.top = `${(100 * box[1]) / height}%`;
  target.style.width = `${(100 * box[2]) / width}%`;
  target.style.height = `${(100 * box[3]) / height}%`;
}

function drawOutlines() {
  page.style.aspectRatio = `${data.size[0]} / ${data.size[1]}`;
  for (const [x, y, w, h, text] of data.texts) {
    const line = element("div", "text", text);
    place(line, [x, y, w, h]);
    line.dataset.height = h;
    page.append(line);
  }
  // Larger regions first: the pointer always finds the innermost one.
  const laidOut = data.regions.filter((region) => region.box);
  laidOut.sort((a, b) => b.box[2] * b.box[3] - a.box[2] * a.box[3] || a.number - b.number);
  for (const region of laidOut) {
    const outline = element("div", region.number === 0 ? "outline page" : "outline");
    outline.append(element("b", "", region.id));
    outline.title = region.purpose;
    // The label of a small outline stands beside it, where there is room, to leave its text readable.
    const [x, , w, h] = region.box;
    if (h < 48 && w < data.size[0] / 2 && x + w + 40 < data.size[0]) outline.classList.add("small");
    place(outline, region.box);
    mark(region, outline);
  }
  const fit = () => {
    const scale = page.clientWidth / data.size[0];
    for (const line of page.querySelectorAll(".text")) {
      line.style.fontSize = `${Math.max(1, Math.min(line.dataset.height * 0.8, 15) * scale)}px`;
    }
  };
  fit();
  new ResizeObserver(fit).observe(page);
}

function drawCards() {
  for (const region of data.regions) {
    const card = element("div", "card");
    card.append(element("b", "", region.id), element("span", "", region.purpose), element("i", "", region.excerpt));
    card.lastChild.dir = "auto";
    card.style.marginLeft = `${Math.min(region.depth, 12) * 22}px`;
    card.style.maxHeight = `${Math.round(32 + 16 * Math.log2(1 + region.size))}px`;
    mark(region, card);
  }
}

function mark(region, target) {
  target.dataset.region = region.number;
  colour(target, region.number);
  marks.set(region.number, target);
  page.append(target);
}

function drawList() {
  for (const region of data.regions) {
    const item = element("li", "region");
    item.id = `region-${region.number}`;
    item.dataset.region = region.number;
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", "false");
    colour(item, region.number);
    const state = element("span", "state", region.state);
    state.dir = "auto";
    item.append(
      element("span", "key", region.id),
      element("span", "purpose", region.purpose || "(no purpose)"),
      element("span", "size", region.size === 1 ? "1 node" : `${region.size} nodes`),
      state,
    );
    items.set(region.number, item);
    list.append(item);
  }
}

function toggleLines(number) {
  const item = items.get(number);
  const lines = item.querySelector(".lines");
  if (lines) lines.remove();
  else item.append(element("div", "lines", data.regions[number].lines.join("\n")));
}

function hover(number, from) {
  for (const hot of document.querySelectorAll(".hot")) hot.classList.remove("hot");
  if (number === null) return;
  marks.get(number)?.classList.add("hot");
  items.get(number).classList.add("hot");
  if (from === "page") items.get(number).scrollIntoView({ block: "nearest" });
}

function select(number) {
  for (const old of [marks.get(selected), items.get(selected)]) {
    old?.classList.remove("selected");
    if (old?.getAttribute("role") === "option") old.setAttribute("aria-selected", "false");
  }
  selected = number;
  list.removeAttribute("aria-activedescendant");
  if (number === null) return;
  const item = items.get(number);
  marks.get(number)?.classList.add("selected");
  item.classList.add("selected");
  item.setAttribute("aria-selected", "true");
  list.setAttribute("aria-activedescendant", item.id);
  item.scrollIntoView({ block: "nearest" });
  const target = marks.get(number);
  if (target) {
    const tall = target.getBoundingClientRect().height > stage.clientHeight;
    target.scrollIntoView({ block: tall ? "start" : "center", inline: "nearest" });
  }
}

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  shown = [];
  for (const region of data.regions) {
    region.text ??= [region.purpose, region.state, ...region.lines].join("\n").toLowerCase();
    const found = words.every((word) => word === region.id.toLowerCase() || region.text.includes(word));
    if (found) shown.push(region.number);
    items.get(region.number).hidden = !found;
    items.get(region.number).style.display = found ? "" : "none";
    marks.get(region.number)?.classList.toggle("dimmed", !found);
  }
  document.getElementById("count").textContent = `${shown.length} of ${data.regions.length}`;
  document.getElementById("empty")?.remove();
  if (!shown.length) {
    const empty = element("li", "", "No region holds these words.");
    empty.id = "empty";
    list.append(empty);
  }
  if (selected !== null && !shown.includes(selected)) select(null);
}

function move(step) {
  if (!shown.length) return;
  const at = shown.indexOf(selected);
  select(shown[at < 0 ? (step > 0 ? 0 : shown.length - 1) : Math.max(0, Math.min(shown.length - 1, at + step))]);
}

function regionOf(event) {
  const holder = event.target.closest("[data-region]");
  return holder ? Number(holder.dataset.region) : null;
}

for (const [side, name] of [[page, "page"], [list, "list"]]) {
  side.addEventListener("pointerover", (event) => hover(regionOf(event), name));
  side.addEventListener("pointerleave", () => hover(null, name));
  side.addEventListener("click", (event) => {
    if (event.target.closest(".lines")) return;
    const number = regionOf(event);
    if (number === null) return;
    if (name === "list" && number === selected) toggleLines(number);
    else select(number);
  });
}

search.addEventListener("input", filter);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target === search;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") move(event.key === "ArrowDown" ? 1 : -1);
  else if (event.key === "Enter" && selected !== null) toggleLines(selected);
  else if (event.key === "/" && !typing) search.focus();
  else if (event.key === "Escape") {
    if (search.value) { search.value = ""; filter(); } else select(null);
    search.blur();
  } else return;
  event.preventDefault();
});

if (stage.classList.contains("schematic")) drawCards();
else drawOutlines();
drawList();
