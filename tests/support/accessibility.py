"""Scripts that a browser runs to find what a page makes hard to read."""

from __future__ import annotations

from pathlib import Path

import axe_core_python

AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()

CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgb = (colour) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data];
};
const light = (colour) => {
  const [r, g, b] = rgb(colour).map((v) => v / 255)
    .map((v) => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
};
const ratio = (a, b) => {
  const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
  return (high + .05) / (low + .05);
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (rgb(colour)[3] === 255) return colour;
  }
  return "white";
};
const found = [];
for (const element of document.body.querySelectorAll("*")) {
  if (!element.checkVisibility() || ["SCRIPT", "title"].includes(element.tagName)) continue;
  if (![...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim())) continue;
  const style = getComputedStyle(element);
  const frame = element.closest(".f");
  const text = element instanceof SVGElement ? style.fill : style.color;
  const back = frame ? getComputedStyle(frame.querySelector("rect")).fill : behind(element);
  found.push([ratio(text, back), element.textContent.trim().slice(0, 40)]);
}
return found;
"""
"""Returns the contrast of each text with what is behind it, and the text."""

# Contrast takes axe most of its time, and is measured by itself.
AUDIT = """
const done = arguments[0];
const options = { resultTypes: ["violations"], rules: { "color-contrast": { enabled: false } } };
axe.run(document, options).then(done, (error) => done({ error: `${error}` }));
"""
"""Calls back with what axe found, or with its error."""
