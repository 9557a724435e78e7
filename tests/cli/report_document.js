// SPDX-License-Identifier: Apache-2.0
//
// A report page without a browser: as much of a document as its scripts use, and a pen that writes
// down what is drawn on the canvas.
"use strict";
const fs = require("fs"), vm = require("vm");

const width = 1000, height = 500;

class Element {
  constructor(tag, drawn) {
    Object.assign(this, {
      tag, drawn, attributes: {}, children: [], listeners: {}, style: {}, textContent: "", value: "",
      clientWidth: width, clientHeight: height, offsetWidth: 0, offsetHeight: 0,
      classList: {add() {}, remove() {}, toggle() {}}
    });
  }
  setAttribute(name, value) { this.attributes[name] = value; }
  append(...items) { this.children.push(...items); }
  prepend(...items) { this.children.unshift(...items); }
  replaceChildren(...items) { this.children = items; }
  remove() {}
  addEventListener(type, heard) { this.listeners[type] = heard; }
  getBoundingClientRect() { return {left: 0, top: 0, right: width, bottom: height, width, height}; }
  /// All below that are such tags, in their order.
  all(tag) {
    return this.children.filter(child => child instanceof Element)
        .flatMap(child => [...(child.tag === tag ? [child] : []), ...child.all(tag)]);
  }
  querySelector(tag) { return this.all(tag)[0]; }
  querySelectorAll() { return []; }
  getContext() {
    const drawn = this.drawn;
    return {
      scale() {}, beginPath() {}, moveTo() {}, lineTo() {}, stroke() {}, save() {}, restore() {},
      rect() {}, clip() {}, fill() {},
      measureText: text => ({width: 6 * text.length}),
      fillText: (text, x, y) => drawn.push({text, x, y}),
      fillRect(x, y, wide, high) { drawn.push({colour: this.fillStyle, x, y, wide, height: high}); }
    };
  }
}

// Of a page: its `scripts`, what the pen has `drawn`, `by(id)` an element, and what its scripts call
// by these names, once they have run.
function openPage(file, names) {
  const page = fs.readFileSync(file, "utf-8");
  const [json] = page.match(/(?<=<script type="application\/json" id="data">)[^]*?(?=<\/script>)/);
  const scripts = [...page.matchAll(/<script>([^]*?)<\/script>/g)].map(match => match[1]);
  const drawn = [], elements = new Map();
  const by = id => {
    if (!elements.has(id)) elements.set(id, new Element(id, drawn));
    return elements.get(id);
  };
  by("data").textContent = json;
  const make = (...tag) => new Element(tag.at(-1), drawn);
  const context = vm.createContext({
    document: {
      getElementById: by, createElement: make, createElementNS: make,
      documentElement: make("html")
    },
    getComputedStyle: () => ({getPropertyValue: name => ` ${name} `}), matchMedia: () => make("media"),
    devicePixelRatio: 1, innerWidth: width, innerHeight: height, addEventListener() {}
  });
  vm.runInContext(`${scripts.join("\n")}\nthis.seen = {${names.join(", ")}};`, context);
  return {scripts, drawn, by, width, ...context.seen};
}

module.exports = {openPage};
