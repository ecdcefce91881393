"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.body.dataset.root;

  // Data are scripts, as a page that was opened from a disk may not fetch: each hands itself over.
  const waiting = new Map();
  window.etharness = { take: (name, data) => waiting.get(document.currentScript.dataset.file)?.(data) };
  const loaded = new Map();
  const load = (file) => {
    if (!loaded.has(file)) {
      loaded.set(file, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.dataset.file = file;
        script.src = root + file;
        waiting.set(file, resolve);
        script.addEventListener("error", () => reject(new Error(file)));
        document.head.append(script);
      }));
    }
    return loaded.get(file);
  };
  const element = (name, text, attributes = {}) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  // Search: models, boards, operators, commits and nights. Every word has to be found.
  const search = document.getElementById("search");
  if (search) {
    const hits = document.getElementById("hits");
    const found = document.getElementById("found");
    const most = 50;
    const show = async () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const entries = words.length ? await load("data/search.js") : [];
      const fits = entries.filter(([kind, text]) => words.every((word) => `${kind} ${text}`.toLowerCase().includes(word)));
      hits.hidden = !words.length;
      found.textContent = words.length ? `${fits.length.toLocaleString("en")} found` : "";
      hits.replaceChildren(...fits.slice(0, most).map(([kind, text, page]) => {
        const item = element("li");
        item.append(element("span", kind, { class: "kind" }), element("a", text, { href: root + page }));
        return item;
      }));
      for (const row of all("#matrix-table tbody tr")) {
        const text = `${row.textContent} ${all("td", row).map((cell) => cell.dataset.label).join(" ")}`.toLowerCase();
        row.hidden = words.length > 0 && fits.length > 0 && !words.some((word) => text.includes(word)) ? false : false;
      }
    };
    search.addEventListener("input", show);
    addEventListener("keydown", (event) => {
      if (event.key === "/" && !["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName)) {
        event.preventDefault();
        search.focus();
      }
    });
  }
})();
