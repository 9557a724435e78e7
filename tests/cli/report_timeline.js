// SPDX-License-Identifier: Apache-2.0
//
// Usage: node report_timeline.js report.html
//
// Runs the scripts of a report page with a document that has nothing and a pen that writes down what is drawn, and
// fails unless every row of the timeline shows the tasks of the device that it is labelled with, and no others.
"use strict";
const fs = require("fs"), vm = require("vm"), assert = require("assert");

const page = fs.readFileSync(process.argv[2], "utf-8");
const [json] = page.match(/(?<=<script type="application\/json" id="data">)[^]*?(?=<\/script>)/);
const scripts = [...page.matchAll(/<script>([^]*?)<\/script>/g)].map(match => match[1]);
assert(scripts.length > 0, "the page has scripts");
// They share one scope, in which a later function takes the place of an earlier one without a word.
const names = scripts.flatMap(
    script => [...script.matchAll(/^(?:function|const|let|var) (\w+)/gm)].map(match => match[1]));
for (const name of names)
  assert.strictEqual(names.filter(other => other === name).length, 1, `${name} is declared once`);

const width = 1000, drawn = [];
const pen = {
  scale() {}, beginPath() {}, moveTo() {}, lineTo() {}, stroke() {}, save() {}, restore() {},
  rect() {}, clip() {}, fill() {},
  measureText: text => ({width: 6 * text.length}),
  fillText: (text, x, y) => drawn.push({text, x, y}),
  fillRect(x, y, wide, height) { drawn.push({colour: this.fillStyle, x, y, wide, height}); }
};
// Any element: takes everything, is nothing.
function stub(id) {
  const own = {
    textContent: id === "data" ? json : "", style: {}, clientWidth: width, offsetWidth: 0,
    getContext: () => pen, getBoundingClientRect: () => ({left: 0, top: 0, width, height: 500}),
    append() {}, prepend() {}, replaceChildren() {}, setAttribute() {}, addEventListener() {},
    remove() {}, querySelectorAll: () => [], classList: {add() {}, remove() {}, toggle() {}}
  };
  return own;
}
const elements = new Map();
const context = vm.createContext({
  document: {
    getElementById: id => {
      if (!elements.has(id)) elements.set(id, stub(id));
      return elements.get(id);
    },
    createElement: () => stub(), createElementNS: () => stub(), documentElement: stub()
  },
  getComputedStyle: () => ({getPropertyValue: name => ` ${name} `}), matchMedia: () => stub(),
  devicePixelRatio: 1, innerWidth: width, innerHeight: 500, addEventListener() {}
});
// page.js and timeline.js; the graph below them needs more of a document.
const timeline = scripts.findIndex(script => script.includes("function drawTimeline"));
assert(timeline >= 0, "the page draws a timeline");
vm.runInContext(scripts.slice(0, timeline + 1).join("\n") +
    "\nthis.seen = {data, gutter, rowHeights, kindColours, extent};", context);
const {data, gutter, rowHeights, kindColours, extent} = context.seen;

// Starts of what is drawn in a row, in pixels.
const colours = new Set(Object.values(kindColours));
const starts = (top, height) =>
    drawn.filter(d => colours.has(d.colour) && d.y === top && d.height === height - 1)
        .map(d => Math.round(d.x));
const scale = (width - gutter - 6) / extent;
const wanted = tasks => tasks.map(task => Math.round(gutter + task[4] * scale));
const moves = (device, task) => Array.isArray(task[3]) && task[3].includes(device);

let rows = 0, measured = 0;
for (const [device, {name}] of data.devices.entries()) {
  const label = drawn.find(d => d.text === name && d.x === 16);
  const own = data.tasks.filter(
      task => task[2] === device || task[3] === device || moves(device, task));
  if (!label) {
    assert.strictEqual(own.length, 0, `${name} has tasks and no row`);
    continue;
  }
  rows++;
  const top = label.y - 9;
  const computes = own.filter(task => task[3] < 0);
  const sends = own.filter(
      task => (task[2] === device && !Array.isArray(task[3]) && task[3] >= 0) || moves(device, task));
  const receives = own.filter(task => task[3] === device || moves(device, task));
  // Neighbours that would fall on one pixel are painted once.
  const shows = (row, found, tasks) => {
    const all = new Set(wanted(tasks));
    for (const x of found) assert(all.has(x), `${name}, ${row}: draws a task at ${x} that it has not`);
    assert.strictEqual(found.length > 0, tasks.length > 0, `${name}, ${row}: draws ${found.length}`);
    const first = Math.min(...wanted(tasks));
    if (tasks.length) assert.strictEqual(found[0], first, `${name}, ${row}: begins elsewhere`);
  };
  shows("computation", starts(top, rowHeights.compute), computes);
  shows("sending", starts(top + rowHeights.compute, rowHeights.send), sends);
  shows("receiving", starts(top + rowHeights.compute + rowHeights.send, rowHeights.receive), receives);
  if (!rowHeights.measured) continue;
  // As tasks, with the times that were measured.
  const runs = data.measured.filter(([, on]) => on === device).map(([number, , start, duration]) => {
    const [kind, op, from, to] = data.tasks[number];
    return [kind, op, from, to, start, duration];
  });
  const isWork = ([, , , to]) => !Array.isArray(to) && to < 0;
  const below = top + rowHeights.compute + rowHeights.send + rowHeights.receive;
  shows("measured work", starts(below, rowHeights.measured), runs.filter(isWork));
  shows("measured moves", starts(below + rowHeights.measured, rowHeights.moved),
      runs.filter(run => !isWork(run)));
  measured += runs.length;
}
assert(rows > 1, "several devices have rows");
assert.strictEqual(measured, data.measured.length, "a run is on a device without a row");
console.log(`${rows} rows, ${measured} measured tasks`);
