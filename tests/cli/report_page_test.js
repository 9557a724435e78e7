// SPDX-License-Identifier: Apache-2.0
//
// Usage: node report_page_test.js report.html
//
// Runs the scripts of a report page without a browser, and fails unless every row of the timeline shows the tasks
// of the device that it is labelled with, and the graph every op, among those of its stage, with what is said of it.
"use strict";
const assert = require("node:assert"), path = require("node:path"), test = require("node:test");
const {openPage} = require(path.join(__dirname, "report_document.js"));

const page = openPage(process.argv[2], [
  "data", "gutter", "rowHeights", "kindColours", "extent", "root", "opened", "visibleBoxes",
  "drawGraph", "boxText", "stageOf", "stages"
]);
const {data, drawn, width} = page;

// Scripts share one scope, in which a later function takes the place of an earlier one without a word.
test("names are declared once", () => {
  assert(page.scripts.length > 0, "the page has scripts");
  const names = page.scripts.flatMap(
      script => [...script.matchAll(/^(?:function|const|let|var) (\w+)/gm)].map(match => match[1]));
  for (const name of names)
    assert.strictEqual(names.filter(other => other === name).length, 1, `${name} is declared once`);
});

test("rows of the timeline show the tasks of their device", () => {
  const {gutter, rowHeights, kindColours, extent} = page;
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
});

// Boxes of ops, by the op, and frames of stages, where they lie.
function openAll() {
  for (;;) {
    const closed = page.visibleBoxes().filter(box => box.op < 0);
    if (!closed.length) break;
    for (const box of closed) page.opened.add(box);
  }
  page.drawGraph();
  const svg = page.by("graph").children[0];
  const numbers = text => text.match(/-?[\d.]+/g).map(Number);
  const boxes = svg.all("g").filter(group => group.attributes["aria-label"] !== undefined).map(group => {
    const [x, y] = numbers(group.attributes.transform);
    return {label: group.attributes["aria-label"], x, y};
  });
  const labels = svg.all("text").filter(text => text.attributes.class === "stage");
  const frames = svg.all("rect").filter(rect => rect.attributes.class === "stage").map((rect, i) => ({
    stage: numbers(labels[i].textContent)[0], ...rect.attributes
  }));
  return {boxes, frames};
}

test("the graph shows every op once, among those of its stage", () => {
  const {boxes, frames} = openAll();
  const shown = [...data.ops.name.keys()].filter(op => data.ops.shown[op]);
  assert.strictEqual(boxes.length, shown.length);
  assert.deepStrictEqual(
      boxes.map(box => box.label.split("\n")[0]).sort(), shown.map(op => data.ops.name[op]).sort());
  assert.strictEqual(frames.length > 0, page.stages > 1, "there are frames where there are stages");
  if (page.stages < 2) return;
  const stageOfName = new Map(shown.map(op => [data.ops.name[op], page.stageOf({ops: [op]})]));
  for (const {label, x, y} of boxes) {
    const stage = stageOfName.get(label.split("\n")[0]);
    const around = frames.filter(frame => frame.stage === stage && frame.x <= x && frame.y <= y &&
        frame.x + frame.width >= x + 116 && frame.y + frame.height >= y + 30);
    assert(around.length > 0, `${label} is in no frame of stage ${stage}`);
  }
});

test("tips say what ops do and have moved", () => {
  let onPath = 0, moved = 0;
  for (const [op, name] of data.ops.name.entries()) {
    const text = page.boxText({op, ops: [op]});
    assert(text.startsWith(`${name}\n${data.ops.type[op]}`), text);
    assert.strictEqual(text.includes("FLOP forward"), data.ops.flops[op] > 0, text);
    for (const [what] of data.ops.moves[data.ops.moved[op]]) {
      assert(text.includes(` × ${what}: `), text);
      moved++;
    }
    const path = data.ops.path[op] || 0;
    assert.strictEqual(text.includes("on the critical path for"), path > 0, text);
    onPath += path;
  }
  const moves = data.tasks.some(([, , , to]) => Array.isArray(to) || to >= 0);
  assert.strictEqual(moved > 0, moves, "something moves");
  assert(onPath > 0 && onPath <= data.whole, `${onPath} of ${data.whole} on the critical path`);
});

test("an op is found by a part of its name", () => {
  const op = data.ops.shown.lastIndexOf(1), search = page.by("search");
  search.value = data.ops.name[op].toUpperCase();
  search.listeners.input();
  const found = page.by("graph").children[0].all("g").filter(
      group => (group.attributes.class || "").endsWith(" found"));
  assert.strictEqual(found.length, 1);
  assert(found[0].attributes["aria-label"].toUpperCase().includes(search.value));
});
