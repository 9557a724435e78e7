// SPDX-License-Identifier: Apache-2.0
//
// Part of the report page: the tree of blocks over the ops. What is closed shows as one box.
"use strict";

const maxChildren = 48, openAtStart = 56, maxChips = 12;
let tree = null;
function buildTree() {
  const root = tree = {name: "", path: "", children: [], index: new Map(), op: -1};
  data.ops.name.forEach((name, op) => {
    if (!data.ops.shown[op]) return;
    let at = root;
    for (const part of data.ops.block[op].split("/").filter(Boolean)) {
      if (!at.index.has(part)) {
        const child =
            {name: part, path: `${at.path}/${part}`, children: [], index: new Map(), op: -1};
        at.index.set(part, child);
        at.children.push(child);
      }
      at = at.index.get(part);
    }
    const type = data.ops.type[op], typed = data.ops.compute[op] && type !== "Given";
    at.children.push({
      name: typed ? type : shortName(name),
      short: shortName(name),
      path: name,
      children: [],
      op
    });
  });
  return finish(root)[0];
}

// Per box: its ops; a box with one child is that child; long lists are cut
// into runs. A block whose ops lie far apart (first and last layer of a model in one scope) becomes
// several boxes.
const farApart = Math.max(40, data.ops.name.length / 25);
function finish(box) {
  if (box.op >= 0) {
    box.ops = [box.op];
    return [box];
  }
  const children = box.children.flatMap(finish).sort((a, b) => a.ops[0] - b.ops[0]);
  const parts = [[]];
  let end = 0;
  for (const child of children) {
    const current = parts[parts.length - 1];
    if (box !== tree && current.length && child.ops[0] - end > farApart) {
      parts.push([child]);
    } else {
      current.push(child);
    }
    end = Math.max(end, child.ops[child.ops.length - 1]);
  }
  return parts.map((part, i) => {
    if (part.length === 1 && box !== tree) return part[0];
    const made = {
      name: parts.length > 1 ? `${box.name} (${i + 1})` : box.name,
      path: box.path,
      children: part,
      op: -1
    };
    while (made.children.length > maxChildren) made.children = runs(made.children, made.path);
    gather(made);
    return made;
  });
}

function gather(box) {
  box.ops = box.children.flatMap(child => child.ops).sort((a, b) => a - b);
}

// The time of a box on each of its roles, or null when these are too many to tell apart.
function shareOf(box) {
  const share = new Map();
  for (const op of box.ops) {
    const devices = devicesOf(op), part = Math.max(1, data.ops.time[op]) / devices.length;
    for (const device of devices) {
      share.set(roleOf[device], (share.get(roleOf[device]) || 0) + part);
      if (share.size > maxStripes) return null;
    }
  }
  return share;
}

// The stage of all its ops; -1: it has several.
function stageOf(box) {
  const inside = new Set(box.ops.map(op => data.devices[devicesOf(op)[0]].stage));
  return inside.size === 1 ? [...inside][0] : -1;
}

function devicesIn(box) {
  const inside = new Set(box.ops.map(op => data.ops.place[op]));
  return [...new Set([...inside].flatMap(place => places[place]))].sort((a, b) => a - b);
}

function runs(children, path) {
  const size = Math.max(2, Math.ceil(children.length / 24)), cut = [];
  for (let i = 0; i < children.length; i += size) {
    const part = children.slice(i, i + size);
    if (part.length === 1) {
      cut.push(part[0]);
      continue;
    }
    const [first, last] = [part[0], part[part.length - 1]].map(box => box.short || box.name);
    const run = {
      name: `${first.split(" … ")[0]} … ${last.split(" … ").pop()}`,
      path: `${path}/${part[0].path} … ${part[part.length - 1].path}`,
      children: part.length > maxChildren ? runs(part, path) : part,
      op: -1
    };
    gather(run);
    cut.push(run);
  }
  return cut;
}
const root = buildTree();
const opened = new Set([root]);
function visibleBoxes(box = root, list = []) {
  for (const child of box.children)
    opened.has(child) ? visibleBoxes(child, list) : list.push(child);
  return list;
}

function openSome() {
  for (;;) {
    const boxes = visibleBoxes(), closed = boxes.filter(box => box.op < 0);
    if (!closed.length) return;
    const next = closed.reduce((a, b) => b.ops.length > a.ops.length ? b : a);
    if (boxes.length + next.children.length - 1 > openAtStart) return;
    opened.add(next);
  }
}
