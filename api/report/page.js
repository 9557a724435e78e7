// SPDX-License-Identifier: Apache-2.0
//
// Part of the report page: the data, helpers that all parts use, the head and the tables.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const by = id => document.getElementById(id);

// Small helpers: elements, colours, numbers for people.
function element(tag, attributes = {}, text) {
  const svg = ["svg", "g", "rect", "path", "text", "clipPath"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) :
                     document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// A colour of report.css, for what is painted.
const tone = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const isNarrow = () => innerWidth < 640;

// A golden angle apart: neighbours differ, and any number of devices gets its own.
const hue = device => Math.round((208 + device * 137.508) % 360);
const colour = device => `hsl(${hue(device)}, 58%, 74%)`;
const kindColours = {
  forward: "#4d7fb8",
  loss: "#8a63b8",
  backward: "#d98c3f",
  accumulate: "#9a9f45",
  pack: "#7d8a94",
  update: "#4f9a6c",
  copy: "#b4562f",
  collective: "#b03a5b",
  recompute: "#7fa6d1",
  weights: "#e0b07a",
  clip: "#2f7f86"
};

function three(value) {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function scaled(value, steps) {
  let [factor, unit] = steps[0];
  for (const [f, u] of steps)
    if (value >= f) [factor, unit] = [f, u];
  return value === 0 ? "0 " + unit : `${three(value / factor)} ${unit}`;
}
const time = ps => scaled(ps, [[1, "ps"], [1e3, "ns"], [1e6, "us"], [1e9, "ms"], [1e12, "s"]]);
const bytes = n => scaled(
    n, [[1, "B"], [1024, "KiB"], [1048576, "MiB"], [1073741824, "GiB"], [1099511627776, "TiB"]]);
const flop = n => scaled(n, [
  [1, "FLOP"], [1e3, "kFLOP"], [1e6, "MFLOP"], [1e9, "GFLOP"], [1e12, "TFLOP"], [1e15, "PFLOP"],
  [1e18, "EFLOP"]
]);
const shortName = name => name.split("/").filter(Boolean).pop() || name;
function showTip(event, text) {
  const tip = by("tip");
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
}

// Head, facts, tables.
by("title").textContent = data.title;
document.title = data.title + " - Partita plan";
by("subtitle").textContent = data.subtitle;
for (const [label, value] of data.facts) {
  // Sentences go below the numbers, a line each.
  const fact = element("div", value.length > 40 ? {class: "sentence"} : {});
  fact.append(element("span", {}, label), element("b", {}, value));
  by("facts").append(fact);
}

function fillTable(table, titles, rows) {
  const head = element("tr");
  titles.forEach((title, i) => head.append(element("th", i ? {class: "number"} : {}, title)));
  table.append(head);
  for (const cells of rows) {
    const row = element("tr");
    cells.forEach((cell, i) => {
      const box = element("td", i ? {class: "number"} : {});
      box.append(...[].concat(cell));
      row.append(box);
    });
    table.append(row);
  }
}

function bar(share) {
  const outer = element("span", {class: "bar"});
  outer.append(element(
      "i", {style: `width:${Math.min(100, 100 * share)}%`, class: share > 1 ? "full" : ""}));
  return outer;
}

function swatch(fill) {
  return element("span", {class: "swatch", style: `background:${fill}`});
}
// The devices of an op, one per part.
const places = data.ops.places.map(
    place => Array.isArray(place) ?
        place :
        Array.from({length: place.count}, (_, i) => place.first + i * place.stride));
const devicesOf = op => places[data.ops.place[op]];
const splitOf = op => data.ops.splits[data.ops.split[op]];

// A stripe per device while they can be told apart; else one grey.
const maxStripes = 8, manyDevices = "#cfd5dd";
const isUsed = d => d.ops > 0 || d.busy > 0;
const usedDevices = data.devices.map((d, i) => i).filter(i => isUsed(data.devices[i]));
const idle = data.devices.length - usedDevices.length;
// Of devices that do the same one tells for all.
const toldDevices = usedDevices.filter(i => data.devices[i].alike > 0);
// What a colour stands for: a device; of many devices the stage that they are in, where there are stages.
const stages = Math.max(...data.devices.map(device => device.stage)) + 1;
const areStages = usedDevices.length > maxStripes && stages > 1;
const roleOf = data.devices.map((device, i) => areStages ? device.stage : i);
function labelOf(device) {
  const {name, alike} = data.devices[device];
  return alike > 1 ? `${name} × ${alike}` : name;
}
by("deviceHint").textContent = idle ? `${idle} more run nothing` : "";
const isExecution = data.measured.length > 0;
const deviceTitles = isExecution ?
    ["device", "ops", "busy", "measured", "memory", "measured"] :
    ["device", "ops", "busy", "", "memory", ""];
fillTable(by("devices"), deviceTitles, toldDevices.map(i => {
  const d = data.devices[i];
  const busy = data.whole ? d.busy / data.whole : 0;
  return [
    [swatch(colour(roleOf[i])), labelOf(i)], `${d.ops}`,
    isExecution ? time(d.busy) : `${(100 * busy).toFixed(0)} %`,
    isExecution ? time(d.measuredBusy) : bar(busy), `${bytes(d.peak)} of ${bytes(d.capacity)}`,
    isExecution ? bytes(d.measuredPeak) : bar(d.peak / d.capacity)
  ];
}));
// Of kinds that some device holds at its peak.
const heldKinds = data.memoryKinds.map((_, k) => k).filter(
    k => data.devices.some(d => d.held[k] > 0));
if (heldKinds.length) {
  fillTable(
      by("held"), ["memory at its peak", ...heldKinds.map(k => data.memoryKinds[k])],
      toldDevices.map(i => [[swatch(colour(roleOf[i])), labelOf(i)],
                            ...heldKinds.map(k => bytes(data.devices[i].held[k]))]));
}
by("comparedHeading").textContent = data.compared.heading;
fillTable(by("compared"), data.compared.titles, data.compared.rows);
if (!data.compared.rows.length) by("comparedSection").style.display = "none";
