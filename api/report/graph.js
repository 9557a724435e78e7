// SPDX-License-Identifier: Apache-2.0
//
// Part of the report page: draws the boxes that are visible, and opens, closes, moves and zooms.
"use strict";

// "gpu0 to gpu7", "gpu0, gpu2 and 3 more".
function deviceNames(devices) {
  const name = device => data.devices[device].name;
  const run = devices.length > 2 && devices.every((device, i) => device === devices[0] + i);
  if (run) return `${name(devices[0])} to ${name(devices[devices.length - 1])}`;
  const more = devices.length > 6 ? ` and ${devices.length - 6} more` : "";
  return devices.slice(0, 6).map(name).join(", ") + more;
}

// What ops compute, have moved and take of the critical path, a line each.
function effortText(ops) {
  const lines = [], sum = values => values.reduce((a, b) => a + b, 0);
  const flops = sum(ops.map(op => data.ops.flops[op]));
  if (flops) lines.push(`${flop(flops)} forward`);
  const moves = new Map();
  for (const op of ops) {
    for (const [what, messages, size, took] of data.ops.moves[data.ops.moved[op]]) {
      const all = moves.get(what) || [0, 0, 0];
      moves.set(what, [all[0] + messages, all[1] + size, all[2] + took]);
    }
  }
  for (const [what, [messages, size, took]] of [...moves].sort((a, b) => b[1][2] - a[1][2]))
    lines.push(`${messages} × ${what}: ${bytes(size)}, ${time(took)}`);
  const path = sum(ops.map(op => data.ops.path[op] || 0));
  if (path)
    lines.push(`on the critical path for ${time(path)}, ${
        (100 * path / data.whole).toFixed(path < data.whole / 10 ? 1 : 0)} % of it`);
  else if (data.ops.path.length)
    lines.push("not on the critical path");
  return lines.map(line => `\n${line}`).join("");
}

function boxText(box) {
  if (box.op >= 0) {
    const devices = devicesOf(box.op), split = splitOf(box.op);
    const how = split ? `, split ${split}, on ${devices.length} devices: ` : " on ";
    const made = data.ops.makes[data.ops.made[box.op]], effort = effortText([box.op]);
    return `${data.ops.name[box.op]}\n${data.ops.type[box.op]}${how}${deviceNames(devices)}\n${
        time(data.ops.time[box.op])}${split ? " in one piece" : ""}${made ? `\nmakes ${made}` : ""}${
        effort}`;
  }
  const splits = box.ops.filter(op => splitOf(op)).length;
  const work = box.ops.reduce((sum, op) => sum + data.ops.time[op], 0);
  return `${box.path}\n${box.ops.length} ops${splits ? `, ${splits} of them split,` : ""} on ${
      deviceNames(devicesIn(box))}\n${time(work)} of work${effortText(box.ops)}`;
}

// Stripes by share of time, or grey.
function fillBox(group, box, width, height) {
  const share = shareOf(box);
  if (!share) {
    group.append(element("rect", {width, height, fill: manyDevices}));
    return;
  }
  const total = [...share.values()].reduce((a, b) => a + b, 0);
  let x = 0;
  for (const [role, t] of [...share].sort((a, b) => a[0] - b[0])) {
    group.append(element("rect", {x, width: width * t / total, height, fill: colour(role)}));
    x += width * t / total;
  }
  // Text must stay legible on stripes.
  if (share.size > 1)
    group.append(element("rect", {width, height, fill: "#fff", "fill-opacity": 0.4}));
}

// The end of a long name tells more: "model.model.layers.14" is "layers.14".
function shortened(name) {
  const most = 18;
  if (name.length <= most) return name;
  if (name.includes(" … ")) return name.slice(0, most - 1) + "…";
  const end = name.slice(-most + 1), dot = end.search(/[./_]/);
  return dot >= 0 && dot < most - 6 ? end.slice(dot + 1) : "…" + end;
}

function partsText(op) {
  const parts = devicesOf(op).length;
  return parts > 1 ? `${parts} parts` : "";
}

function drawBox(node, stage) {
  const {box} = node, width = 116, height = 30,
        group = element("g", {
          class: `node${box.op < 0 ? " block" : ""}${box === found ? " found" : ""}`,
          tabindex: 0,
          role: box.op < 0 ? "button" : "img",
          "aria-label": boxText(box),
          transform: `translate(${node.x - width / 2},${node.y})`
        });
  fillBox(group, box, width, height);
  group.append(element(
      "rect", {class: "frame", width, height, rx: 3, "stroke-width": box.op < 0 ? 1.8 : 1}));
  const count = box.op < 0 ? `${box.ops.length} ops` : partsText(box.op);
  group.append(element(
      "text", {x: width / 2, y: count ? 13 : 19, "text-anchor": "middle"}, shortened(box.name)));
  if (count)
    group.append(element(
        "text", {class: "count", x: width / 2, y: 25, "text-anchor": "middle"}, count));
  group.addEventListener("pointermove", event => showTip(event, boxText(box)));
  group.addEventListener("pointerleave", event => showTip(event, null));
  group.addEventListener("focus", () => {
    const at = group.getBoundingClientRect();
    showTip({clientX: at.right, clientY: at.bottom}, boxText(box));
  });
  group.addEventListener("blur", event => showTip(event, null));
  const open = () => {
    opened.add(box);
    showTip(null, null);
    drawGraph();
  };
  if (box.op < 0) {
    group.addEventListener("click", () => dragged || open());
    group.addEventListener("keydown", event => event.key === "Enter" && open());
  }
  stage.append(group);
}

// Each step of a shared trunk once; it is red where something crosses devices.
function drawEdges(edges, stage) {
  const steps = new Map();
  for (const edge of edges) {
    if (edge.from > edge.to) {
      drawPath(backLine(edge.path[0], edge.path[1]), edge.crosses, true, stage);
      continue;
    }
    for (let i = 1; i < edge.path.length; i++) {
      const [a, b] = [edge.path[i - 1], edge.path[i]];
      if (!steps.has(a)) steps.set(a, new Map());
      steps.get(a).set(b, steps.get(a).get(b) || edge.crosses);
    }
  }
  for (const [a, targets] of steps)
    for (const [b, crosses] of targets) drawPath(stepLine(a, b), crosses, false, stage);
}
const backLine = (a, b) => `M${a.x - 58},${a.y + 15} C${a.x - 110},${a.y + 15} ${b.x - 110},${
    b.y + 15} ${b.x - 58},${b.y + 15}`;
function stepLine(a, b) {
  const from = a.y + (a.box ? 30 : 15), to = b.y + (b.box ? 0 : 15);
  if (a.column === b.column) {
    const middle = (from + to) / 2;
    return `M${a.x},${from} C${a.x},${middle} ${b.x},${middle} ${b.x},${to}`;
  }
  // Round the corner and up between the columns.
  const x = b.gutter + (a.rank % 7 - 3) * 4, turn = from + 26, top = to - 22;
  return `M${a.x},${from} C${a.x},${turn} ${x},${turn} ${x},${from} L${x},${to} C${x},${top} ${
      b.x},${top} ${b.x},${to}`;
}

function drawPath(d, crosses, back, stage) {
  stage.append(element("path", {
    d,
    class: (crosses ? "copy" : "") + (back ? " back" : ""),
    "stroke-width": crosses ? 1.5 : 1
  }));
}
// Behind the boxes: a frame around those of one stage that stand together, a column of the picture at a
// time.
function drawStages(nodes, stage) {
  const frames = new Map();
  for (const node of nodes) {
    const of = stageOf(node.box);
    if (of < 0) continue;
    const key = `${of} ${node.column}`, around = frames.get(key) || {
      of,
      left: Infinity,
      top: Infinity,
      right: -Infinity,
      bottom: -Infinity
    };
    frames.set(key, {
      of,
      left: Math.min(around.left, node.x - 58),
      top: Math.min(around.top, node.y),
      right: Math.max(around.right, node.x + 58),
      bottom: Math.max(around.bottom, node.y + 30)
    });
  }
  for (const {of, left, top, right, bottom} of frames.values()) {
    stage.append(
        element("rect", {
          class: "stage",
          x: left - 8,
          y: top - 10,
          width: right - left + 16,
          height: bottom - top + 18,
          rx: 6,
          ...(areStages ? {style: `fill:${colour(of)};stroke:${colour(of)}`} : {})
        }),
        element("text", {class: "stage", x: left - 6, y: top - 1}, `stage ${of}`));
  }
}

let camera = null, dragged = false, found = null;
// `shown`: a box that must be in the middle; null: as much of all as stays legible.
function drawGraph(shown = null) {
  const {nodes, edges} = layout(visibleBoxes());
  const svg = element("svg"), stage = element("g");
  svg.append(stage);
  if (stages > 1) drawStages(nodes, stage);
  drawEdges(edges, stage);
  for (const node of nodes) drawBox(node, stage);
  by("graph").replaceChildren(svg);
  const left = Math.min(...nodes.map(node => node.x)) - 80,
        right = Math.max(...nodes.map(node => node.x)) + 80;
  const bottom = Math.max(...nodes.map(node => node.y)) + 40;
  const width = by("graph").clientWidth, height = by("graph").clientHeight;
  // The whole graph if it stays legible, else its begin at a legible size.
  const scale =
      Math.min(1.4, Math.max(0.5, Math.min(width / (right - left), height / (bottom + 36))));
  camera = {
    scale,
    x: Math.max(10 - scale * left, width / 2 - scale * (left + right) / 2),
    y: Math.max(20, (height - bottom * scale) / 2)
  };
  const middle = nodes.find(node => node.box === shown);
  if (middle)
    camera = {scale, x: width / 2 - scale * middle.x, y: height / 2 - scale * (middle.y + 15)};
  moveCamera();
  const blocks = [...opened].filter(box => box !== root);
  by("opened").replaceChildren(...blocks.slice(-maxChips).map(box => {
    const chip = element("button", {title: `close ${box.path}`}, `${shortened(box.name)} ×`);
    chip.addEventListener("click", () => {
      for (const other of [...opened])
        if (other !== root && (other === box || isInside(box, other))) opened.delete(other);
      drawGraph();
    });
    return chip;
  }));
}

function isInside(box, other) {
  return box.children.some(child => child === other || isInside(child, other));
}

function moveCamera() {
  by("graph").querySelector("g").setAttribute(
      "transform", `translate(${camera.x},${camera.y}) scale(${camera.scale})`);
}
// Around a point of the picture.
function zoom(factor, px, py) {
  const scale = Math.min(4, Math.max(0.05, camera.scale * factor));
  camera = {
    scale,
    x: px - (px - camera.x) * scale / camera.scale,
    y: py - (py - camera.y) * scale / camera.scale
  };
  moveCamera();
}
by("graph").addEventListener("wheel", event => {
  event.preventDefault();
  const box = by("graph").getBoundingClientRect();
  zoom(1.15 ** -Math.sign(event.deltaY), event.clientX - box.left, event.clientY - box.top);
}, {passive: false});
by("graph").addEventListener("keydown", event => {
  const step = 60, middle = [by("graph").clientWidth / 2, by("graph").clientHeight / 2];
  const moves =
      {ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step]};
  if (moves[event.key]) {
    camera.x += moves[event.key][0];
    camera.y += moves[event.key][1];
    moveCamera();
  } else if (event.key === "+" || event.key === "-") {
    zoom(event.key === "+" ? 1.3 : 1 / 1.3, ...middle);
  } else if (event.key === "0") {
    drawGraph();
  } else {
    return;
  }
  event.preventDefault();
});
let grab = null;
by("graph").addEventListener("pointerdown", event => {
  grab = [event.clientX - camera.x, event.clientY - camera.y, event.clientX, event.clientY];
  dragged = false;
});
addEventListener("pointerup", () => {
  grab = null;
});
by("graph").addEventListener("pointermove", event => {
  if (!grab) return;
  dragged = dragged || Math.abs(event.clientX - grab[2]) + Math.abs(event.clientY - grab[3]) > 4;
  camera.x = event.clientX - grab[0];
  camera.y = event.clientY - grab[1];
  moveCamera();
});
by("collapse").addEventListener("click", () => {
  opened.clear();
  opened.add(root);
  drawGraph();
});
// Ops whose names or blocks contain what is typed; Enter goes from one to the next.
let matches = [], match = -1;
function boxOfOp(op, box = root) {
  if (box.op === op) return [box];
  const child = box.children.find(each => each.ops.includes(op));
  return child ? [box, ...boxOfOp(op, child)] : [];
}
function showMatch(next) {
  match = matches.length ? next % matches.length : -1;
  by("matches").textContent =
      matches.length ? `${match + 1} of ${matches.length}` : by("search").value ? "none" : "";
  found = null;
  if (match < 0) return drawGraph();
  const path = boxOfOp(matches[match]);
  found = path.pop();
  for (const box of path) opened.add(box);
  drawGraph(found);
}
by("search").addEventListener("input", () => {
  const text = by("search").value.toLowerCase();
  const called = op => `${data.ops.block[op]}/${data.ops.name[op]}`.toLowerCase();
  matches = text ? [...data.ops.name.keys()].filter(
                       op => data.ops.shown[op] && called(op).includes(text)) :
                   [];
  showMatch(0);
});
by("search").addEventListener("keydown", event => event.key === "Enter" && showMatch(match + 1));
function addLegend(fill, text) {
  const entry = element("span", {}, text);
  entry.prepend(swatch(fill));
  by("fills").append(entry);
}
if (areStages) {
  by("colourOf").textContent = "stage";
  for (let stage = 0; stage < stages; stage++) {
    const members = usedDevices.filter(device => roleOf[device] === stage);
    addLegend(colour(stage), `stage ${stage}: ${deviceNames(members)}`);
  }
} else if (usedDevices.length <= maxStripes) {
  for (const device of usedDevices) addLegend(colour(device), data.devices[device].name);
} else {
  addLegend(manyDevices, `more than ${maxStripes} devices`);
}
if (root.children.length) {
  openSome();
  drawGraph();
} else {
  by("graph").textContent = "The graph has no ops.";
}
