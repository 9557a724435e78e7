// SPDX-License-Identifier: Apache-2.0
//
// Part of the report page: the timeline. Per device one compute row and two thin communication rows,
// of an execution the same as measured in two rows below, and its memory, on a canvas.
"use strict";

const rowHeights = {
  compute: 17,
  send: 5,
  receive: 5,
  ...(isExecution && {measured: 17, moved: 5}),
  memory: 20,
  gap: 7
};
// Those with tasks.
const taskRows = Object.keys(rowHeights).filter(row => row !== "memory" && row !== "gap");
const groupHeight = Object.values(rowHeights).reduce((a, b) => a + b);
const maxRows = 100;
const gutter = isNarrow() ? 80 : 118, axis = 20;
const extent = data.measured.reduce(
    (end, [, , start, duration]) => Math.max(end, start + duration), data.whole || 1);
let view = [0, extent];
const shownDevices = toldDevices.length <= maxRows ?
    toldDevices :
    [...toldDevices]
        .sort((a, b) => data.devices[b].busy - data.devices[a].busy || a - b)
        .slice(0, maxRows)
        .sort((a, b) => a - b);
const groupOf = new Map(shownDevices.map((device, row) => [device, row]));
// Slices: [kind, op, start, duration, other end], rising by start, per row of the canvas.
const slices =
    shownDevices.map(() => Object.fromEntries(taskRows.map(row => [row, []])));
for (const task of data.tasks) {
  const [kind, , device, to] = task;
  const home = slices[groupOf.get(device)], far = slices[groupOf.get(to)];
  if (Array.isArray(to)) {
    for (const rank of to) {
      const rows = slices[groupOf.get(rank)];
      if (rows) {
        rows.send.push(task);
        rows.receive.push(task);
      }
    }
  } else if (to < 0) {
    if (home) home.compute.push(task);
  } else {
    if (home) home.send.push(task);
    if (far) far.receive.push(task);
  }
}

// What was measured of a task, and behind it what was predicted.
for (const [number, device, start, duration] of data.measured) {
  const rows = slices[groupOf.get(device)], task = data.tasks[number];
  if (!rows) continue;
  const [kind, op, from, to, , , name] = task;
  const isWork = !Array.isArray(to) && to < 0;
  rows[isWork ? "measured" : "moved"].push([kind, op, from, to, start, duration, name, task]);
}

const opName = op => op < 0 ? "gradients" : data.ops.name[op];

function taskText([kind, op, device, to, start, duration, name, predicted]) {
  const first = data.devices[device].name;
  const route = Array.isArray(to) ? `${to.length} devices from ${first} on` :
      to < 0                      ? first :
                                    `${first} to ${data.devices[to].name}`;
  const when = `start ${time(start)}, takes ${time(duration)}`;
  const beside = predicted ? `\npredicted: start ${time(predicted[4])}, takes ${time(predicted[5])}` : "";
  return `${name || data.kinds[kind]} ${opName(op)}\n${route}\n${
      predicted ? "measured: " : ""}${when}${beside}`;
}
const canvas = by("timeline");
function drawTimeline() {
  const width = canvas.clientWidth, height = axis + groupHeight * shownDevices.length;
  const ratio = Math.min(devicePixelRatio || 1, 32000 / height);
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = height + "px";
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "11.5px system-ui, 'DejaVu Sans', sans-serif";
  pen.textBaseline = "middle";
  const plot = width - gutter - 6, scale = plot / (view[1] - view[0]);
  const x = t => gutter + (t - view[0]) * scale;
  pen.strokeStyle = tone("--line");
  pen.fillStyle = tone("--quiet");
  const step = niceStep((view[1] - view[0]) / (isNarrow() ? 3 : 8));
  for (let t = Math.ceil(view[0] / step) * step; t <= view[1]; t += step) {
    pen.beginPath();
    pen.moveTo(x(t), axis - 4);
    pen.lineTo(x(t), height);
    pen.stroke();
    pen.fillText(time(t), Math.min(x(t) + 3, width - 52), 8);
  }
  shownDevices.forEach(
      (device, row) => drawDevice(pen, device, slices[row], axis + row * groupHeight, x, width));
}

function niceStep(raw) {
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].find(f => f * power >= raw) * power;
}

function drawDevice(pen, device, rows, top, x, width) {
  pen.fillStyle = colour(roleOf[device]);
  pen.fillRect(0, top + 3, 11, 11);
  pen.fillStyle = tone("--ink");
  pen.fillText(ellipsis(pen, labelOf(device), gutter - 22), 16, top + 9);
  if (isExecution) {
    pen.fillStyle = tone("--quiet");
    pen.fillText("measured", 16, top + rowHeights.compute + rowHeights.send + rowHeights.receive + 9);
  }
  pen.save();
  pen.beginPath();
  pen.rect(gutter, top, width - gutter - 6, groupHeight);
  pen.clip();
  let y = top;
  for (const row of taskRows) {
    pen.fillStyle = tone(rowHeights[row] > 10 ? "--row" : "--thin-row");
    pen.fillRect(gutter, y, width, rowHeights[row] - 1);
    drawSlices(pen, rows[row], y, rowHeights[row] - 1, x);
    y += rowHeights[row];
  }
  drawMemory(pen, device, y, x, width);
  pen.restore();
}

// A slice narrower than a pixel still shows, but a pixel is painted once per kind: 100,000 slices
// are quick.
function drawSlices(pen, tasks, y, height, x) {
  let painted = -1, paintedKind = -1;
  for (const task of tasks) {
    const [kind, op, , , start, duration] = task;
    if (start + duration < view[0]) continue;
    if (start > view[1]) break;
    const left = x(start), wide = Math.max(x(start + duration) - left, 0.7);
    if (left + wide < painted && kind === paintedKind) continue;
    pen.fillStyle = kindColours[data.kinds[kind]];
    pen.fillRect(left, y, wide > 3 ? wide - 0.6 : wide, height);
    if (wide > 46 && height > 10) {
      pen.fillStyle = "#fff";
      pen.fillText(
          ellipsis(pen, shortName(opName(op)), wide - 8), Math.max(left, gutter) + 4,
          y + height / 2);
    }
    painted = left + Math.max(wide, 1);
    paintedKind = kind;
  }
}

function drawMemory(pen, device, y, x, width) {
  const steps = data.memory[device], height = rowHeights.memory - 3,
        capacity = data.devices[device].capacity;
  const peak = Math.max(1, data.devices[device].peak);
  if (!steps || !steps.length) return;
  const level = n => y + height - height * n / peak;
  pen.fillStyle = tone(peak > capacity ? "--memory-over" : "--memory");
  pen.beginPath();
  pen.moveTo(x(0), y + height);
  let last = 0;
  for (let i = 0; i < steps.length; i += 2) {
    pen.lineTo(x(steps[i]), level(last));
    last = steps[i + 1];
    pen.lineTo(x(steps[i]), level(last));
  }
  pen.lineTo(x(data.whole), level(last));
  pen.lineTo(x(data.whole), y + height);
  pen.fill();
}

function ellipsis(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let keep = Math.max(1, Math.floor(text.length * width / pen.measureText(text).width) - 1);
  return keep < 3 ? "" : text.slice(0, keep) + "…";
}

function taskAt(event) {
  const box = canvas.getBoundingClientRect(), left = event.clientX - box.left,
        top = event.clientY - box.top - axis;
  const group = Math.floor(top / groupHeight),
        scale = (view[1] - view[0]) / (box.width - gutter - 6);
  if (left < gutter || top < 0 || group >= shownDevices.length) return null;
  const t = view[0] + (left - gutter) * scale, slack = 1.5 * scale;
  let y = top - group * groupHeight;
  for (const row of taskRows) {
    if (y < rowHeights[row]) {
      return taskTextOrEmpty(slices[group][row].find(
          ([, , , , start, duration]) => start - slack <= t && t <= start + duration + slack));
    }
    y -= rowHeights[row];
  }
  return `${labelOf(shownDevices[group])}: ${
      bytes(memoryAt(shownDevices[group], t))} of ${
      bytes(data.devices[shownDevices[group]].capacity)} at ${time(Math.max(0, t))}`;
}
const taskTextOrEmpty = task => task ? taskText(task) : null;
function memoryAt(device, t) {
  const steps = data.memory[device] || [];
  let level = 0;
  for (let i = 0; i < steps.length && steps[i] <= t; i += 2) level = steps[i + 1];
  return level;
}

function setView(from, to) {
  const length = Math.min(Math.max(to - from, extent / 1e6), extent);
  const begin = Math.min(Math.max(0, from), extent - length);
  view = [begin, begin + length];
  drawTimeline();
}
if (data.tasks.length) {
  for (const kind of data.kinds.filter((name, i) => data.tasks.some(task => task[0] === i))) {
    const entry = element("span", {}, kind);
    entry.prepend(swatch(kindColours[kind]));
    by("kinds").append(entry);
  }
  by("timelineHint").textContent =
      (isExecution ?
           "Per device: computation, sending, receiving as predicted; computation, and communication " +
               "as measured; memory as predicted (scaled to its peak). " :
           "Per device: computation, sending, receiving, and memory (scaled to its peak). ") +
      "Wheel or + and - zoom, drag or arrows move, 0 shows all." +
      (shownDevices.length < toldDevices.length ?
           ` The ${maxRows} busiest of ${toldDevices.length} devices.` :
           "");
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect(),
          at = Math.max(0, (event.clientX - box.left - gutter) / (box.width - gutter - 6));
    const length = (view[1] - view[0]) * 1.2 ** Math.sign(event.deltaY),
          t = view[0] + at * (view[1] - view[0]);
    setView(t - at * length, t - at * length + length);
  }, {passive: false});
  let held = null;
  canvas.addEventListener("pointerdown", event => {
    held = [event.clientX, ...view];
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => {
    held = null;
  });
  canvas.addEventListener("pointermove", event => {
    if (!held) return showTip(event, taskAt(event));
    const moved =
        (event.clientX - held[0]) * (held[2] - held[1]) / (canvas.clientWidth - gutter - 6);
    setView(held[1] - moved, held[2] - moved);
  });
  canvas.addEventListener("pointerleave", event => showTip(event, null));
  by("fit").addEventListener("click", () => setView(0, extent));
  canvas.addEventListener("keydown", event => {
    const length = view[1] - view[0], middle = view[0] + length / 2;
    const keys = {
      ArrowLeft: () => setView(view[0] - length / 8, view[1] - length / 8),
      ArrowRight: () => setView(view[0] + length / 8, view[1] + length / 8),
      "+": () => setView(middle - length / 3, middle + length / 3),
      "-": () => setView(middle - length, middle + length),
      "0": () => setView(0, extent)
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  addEventListener("resize", drawTimeline);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawTimeline);
  drawTimeline();
} else {
  by("timelineSection").style.display = "none";
}
