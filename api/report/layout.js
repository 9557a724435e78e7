// SPDX-License-Identifier: Apache-2.0
//
// Part of the report page: a layered layout of boxes. A box's layer is its longest path; long edges
// of one box share a trunk of dummies; the order in a layer follows the barycentre of the
// neighbours (Sugiyama, Tagawa, Toda 1981), then boxes move towards them.
"use strict";

const layerHeight = 58;
function layout(boxes) {
  boxes.sort((a, b) => a.ops[0] - b.ops[0]);
  const boxOf = new Int32Array(data.ops.name.length).fill(-1);
  boxes.forEach((box, i) => {
    for (const op of box.ops) boxOf[op] = i;
  });
  const nodes = boxes.map(box => ({box, layer: 0, before: [], after: [], width: 116, trunk: []}));
  const edges = new Map();
  for (let e = 0; e < data.edges.length; e += 2) {
    const from = boxOf[data.edges[e]], to = boxOf[data.edges[e + 1]];
    if (from < 0 || to < 0 || from === to) continue;
    const key = from * boxes.length + to,
          crosses = data.ops.place[data.edges[e]] !== data.ops.place[data.edges[e + 1]];
    const edge = edges.get(key) || {from, to, crosses: false};
    edge.crosses = edge.crosses || crosses;
    edges.set(key, edge);
  }
  // Blocks may depend on each other both ways: an edge against the order of first ops only gets
  // drawn.
  const forward = [...edges.values()]
                      .filter(edge => edge.from < edge.to)
                      .sort((a, b) => a.from - b.from || a.to - b.to);
  for (const {from, to} of forward)
    nodes[to].layer = Math.max(nodes[to].layer, nodes[from].layer + 1);
  // What has no producer stands above its first consumer, not at the top.
  const fed = new Set(forward.map(edge => edge.to)), first = new Map();
  for (const {from, to} of forward)
    if (!fed.has(from)) first.set(from, Math.min(first.get(from) ?? Infinity, nodes[to].layer - 1));
  for (const [node, layer] of first) nodes[node].layer = layer;
  for (const edge of edges.values()) {
    edge.path = [nodes[edge.from]];
    if (edge.from < edge.to) {
      const trunk = nodes[edge.from].trunk;  // shared by all long edges of one box
      for (let layer = nodes[edge.from].layer + 1; layer < nodes[edge.to].layer; layer++) {
        if (!trunk[layer]) {
          trunk[layer] = {box: null, layer, before: [], after: [], width: 14};
          nodes.push(trunk[layer]);
        }
        edge.path.push(trunk[layer]);
      }
    }
    edge.path.push(nodes[edge.to]);
    if (edge.from < edge.to)
      for (let i = 0; i + 1 < edge.path.length; i++) join(edge.path[i], edge.path[i + 1]);
  }
  const layers = [];
  for (const node of nodes) (layers[node.layer] = layers[node.layer] || []).push(node);
  orderLayers(layers);
  placeLayers(layers);
  foldLayers(layers);
  return {nodes: nodes.filter(node => node.box), edges: [...edges.values()]};
}

// Deep graphs are folded into columns, like text in a newspaper: as many as make it largest.
function foldLayers(layers) {
  const extent = part => {
    const all = part.flat();
    return [
      Math.min(...all.map(n => n.x - n.width / 2)), Math.max(...all.map(n => n.x + n.width / 2))
    ];
  };
  const columnsOf = count => {
    const rows = Math.ceil(layers.length / count), columns = [];
    for (let i = 0; i < layers.length; i += rows) columns.push(layers.slice(i, i + rows));
    return columns;
  };
  const gap = 56,
        widthOf = columns =>
            columns.reduce((sum, part) => sum + gap + extent(part)[1] - extent(part)[0], -gap);
  const scaleOf = columns => Math.min(
      by("graph").clientWidth / (widthOf(columns) + 40),
      by("graph").clientHeight / (columns[0].length * layerHeight + 20));
  let best = columnsOf(1);
  for (let count = 2; count <= Math.min(16, layers.length); count++)
    if (scaleOf(columnsOf(count)) > 1.02 * scaleOf(best)) best = columnsOf(count);
  let left = 0;
  best.forEach((part, column) => {
    const [from, to] = extent(part);
    part.forEach((layer, row) => layer.forEach(node => {
      node.x += left - from;
      node.y = row * layerHeight;
      node.column = column;
      node.gutter = left - gap / 2;
    }));
    left += to - from + gap;
  });
}

function join(a, b) {
  if (!a.after.includes(b)) {
    a.after.push(b);
    b.before.push(a);
  }
}

function orderLayers(layers) {
  const number = () => layers.forEach(layer => layer.forEach((node, i) => {
    node.rank = i;
  }));
  number();
  for (let sweep = 0; sweep < 12; sweep++) {
    const side = sweep % 2 ? "after" : "before";
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      for (const node of layer)
        node.key = node[side].length ?
            node[side].reduce((sum, n) => sum + n.rank, 0) / node[side].length :
            node.rank;
      layer.sort((a, b) => a.key - b.key || a.rank - b.rank);
      layer.forEach((node, i) => {
        node.rank = i;
      });
    }
  }
}

function placeLayers(layers) {
  const space = (a, b) => (a.width + b.width) / 2 + 14;
  for (const layer of layers) {
    let x = 0;
    layer.forEach((node, i) => {
      x += i ? space(layer[i - 1], node) : 0;
      node.x = x;
    });
    layer.forEach(node => {
      node.x -= x / 2;
    });
  }
  for (let sweep = 0; sweep < 24; sweep++) {
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) {
      const near = node => sweep % 2 ? node.after : node.before;
      const wish = layer.map(
          node => near(node).length ?
              near(node).reduce((sum, n) => sum + n.x, 0) / near(node).length :
              node.x);
      const low = [], high = [];
      layer.forEach((node, i) => {
        low[i] = i ? Math.max(wish[i], low[i - 1] + space(layer[i - 1], node)) : wish[i];
      });
      for (let i = layer.length - 1; i >= 0; i--)
        high[i] = i + 1 < layer.length ?
            Math.min(wish[i], high[i + 1] - space(layer[i], layer[i + 1])) :
            wish[i];
      layer.forEach((node, i) => {
        node.x = (low[i] + high[i]) / 2;
      });
    }
  }
}
