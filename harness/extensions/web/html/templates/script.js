"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.documentElement;
  for (const tools of all(".tools")) tools.hidden = false;

  // Theme: what the system says, until the reader says otherwise.
  const theme = document.getElementById("theme");
  const themes = ["automatic", "dark", "light"];
  const recall = () => { try { return localStorage.getItem("etharness-theme"); } catch { return null; } };
  const dress = (name) => {
    if (name === "automatic") delete root.dataset.theme; else root.dataset.theme = name;
    theme.textContent = `Theme: ${name}`;
  };
  theme.hidden = false;
  dress(themes.includes(recall()) ? recall() : "automatic");
  theme.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme ?? "automatic") + 1) % themes.length];
    dress(next);
    try { localStorage.setItem("etharness-theme", next); } catch { /* only this page, then */ }
  });

  // A list of what there is, in place of the empty one that is of no use without a script.
  const sections = document.getElementById("sections");
  if (sections) {
    for (const heading of all("section > h2[id]")) {
      const link = document.createElement("a");
      link.href = `#${heading.id}`;
      link.textContent = heading.textContent;
      sections.append(link);
    }
  }

  // What a link leads to, or is printed, must not be folded away.
  const unfold = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  addEventListener("beforeprint", () => all("details:not([open])").forEach((item) => {
    item.open = true;
    item.dataset.folded = "";
  }));
  addEventListener("afterprint", () => all("details[data-folded]").forEach((item) => {
    item.open = false;
    delete item.dataset.folded;
  }));

  // Filters.
  const filter = (rows, wanted, output) => {
    let shown = 0;
    for (const row of rows) {
      row.hidden = !wanted(row);
      shown += !row.hidden;
    }
    output.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} shown`;
  };
  const holds = (element, text) => `${element.textContent} ${element.title}`.toLowerCase().includes(text.toLowerCase());

  // Of a long table the first rows, until the reader asks for all or looks for one.
  const fold = (rows) => all("tbody > tr", rows)
    .forEach((row, place) => row.classList.toggle("beyond", place >= Number(rows.dataset.top)));
  for (const rows of all("[data-top]")) fold(rows);
  const whole = (rows) => {
    rows.classList.remove("short");
    for (const button of all(`[data-all="${rows.id}"]`)) button.hidden = true;
  };
  for (const button of all("[data-all]")) {
    const rows = document.getElementById(button.dataset.all);
    rows.classList.add("short");
    button.addEventListener("click", () => whole(rows));
  }
  addEventListener("input", ({ target }) => {
    if (!target.dataset.filter) return;
    const table = document.getElementById(target.dataset.filter);
    whole(table);
    const rows = all("tbody tr", table);
    filter(rows, (row) => holds(row.cells[0], target.value), target.closest(".tools").querySelector("output"));
  });
  // Operators one by one, or in groups.
  for (const button of all("[data-group]")) {
    button.addEventListener("click", () => {
      for (const other of all(`[data-group="${button.dataset.group}"]`)) {
        other.setAttribute("aria-pressed", other === button ? "true" : "false");
      }
      for (const part of document.getElementById(button.dataset.group).children) {
        part.hidden = button.dataset.by !== "operator" && part.dataset.by !== button.dataset.by;
        if (part.tagName === "DETAILS") part.open = part.dataset.by === button.dataset.by;
      }
    });
  }
  const runs = all("details.run");
  if (runs.length) {
    const text = document.getElementById("run-filter");
    const failed = document.getElementById("only-failed");
    const rows = new Map(all("#all-runs tr[data-run]").map((row) => [row.dataset.run, row]));
    const update = () => {
      filter(runs, (run) => holds(rows.get(run.id), text.value) &&
        !(failed.checked && run.classList.contains("pass")), document.getElementById("run-count"));
      for (const run of runs) rows.get(run.id).hidden = run.hidden;
    };
    text.addEventListener("input", update);
    failed.addEventListener("change", update);
    update();
  }

  // Tables that can be sorted: their headers become buttons, those of folded runs when these open.
  const value = (cell) => cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent.trim();
  const compare = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    return a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y)
      ? x - y : String(a).localeCompare(String(b), "en");
  };
  const sort = (table, header) => {
    const down = header.getAttribute("aria-sort") === "descending" ||
      (!header.hasAttribute("aria-sort") && !header.classList.contains("n"));
    for (const other of all("th[aria-sort]", table)) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "ascending" : "descending");
    const body = table.tBodies[0];
    const keyed = [...body.rows].map((row) => [value(row.cells[header.cellIndex]), row]);
    keyed.sort(([a], [b]) => (down ? compare(a, b) : compare(b, a)));
    body.append(...keyed.map(([, row]) => row));
    const rows = table.closest("[data-top]");
    if (rows) fold(rows);
  };
  const prepare = (where) => {
    for (const table of all("table.sortable:not([data-ready])", where)) {
      const outer = table.closest("details.run");
      if (outer && !outer.open) continue;
      table.dataset.ready = "";
      for (const header of all("thead th:not([data-plain])", table)) {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...header.childNodes);
        button.addEventListener("click", () => sort(table, header));
        header.append(button);
      }
    }
  };
  prepare(document);
  for (const run of runs) run.addEventListener("toggle", () => prepare(run));

  // The flame view: arrow keys move, Enter or a click zooms, Escape zooms out.
  const flame = (figure) => {
    const frames = all(".f", figure);
    if (!frames.length) return;
    const panel = figure.querySelector(".panel");
    const percent = (frame, name) => parseFloat(frame.getAttribute(name));
    const nodes = frames.map((frame) => ({
      frame, parent: Number(frame.dataset.p), left: percent(frame, "x"), width: percent(frame, "width"), inner: [],
      name: frame.dataset.n ?? frame.querySelector("text").textContent,
    }));
    const svg = figure.querySelector(".icicle");
    const out = figure.querySelector(".out");
    const place = new Map(nodes.map((node, index) => [node.frame, index]));
    const top = [];
    nodes.forEach((node, index) => (node.parent < 0 ? top : nodes[node.parent].inner).push(index));
    const above = (index) => (index < 0 ? [] : [...above(nodes[index].parent), index]);
    // Of a name as much as there is room for: all, the last words, the instruction, or nothing.
    const name = (node, width) => {
      const room = (width * svg.clientWidth / 100 - 9) / 6.6;
      let [, words, number] = /^(.*?)( #\d+)?( [-+].*)?$/s.exec(node.name);
      number ??= "";
      while (words && words.length + number.length > room) words = /^.*?(?:::|_|\.(?=[a-zA-Z]))(.*)$/s.exec(words)?.[1] ?? "";
      const text = node.name.length <= room ? node.name : words ? words + number : number.trim();
      for (const old of all("text", node.frame)) old.remove();
      if (!text || text.length > room) return;
      const shown = document.createElementNS(svg.namespaceURI, "text");
      for (const [key, value] of Object.entries({ x: 5, y: 16, "aria-hidden": "true" })) shown.setAttribute(key, value);
      shown.textContent = text;
      node.frame.append(shown);
    };
    let zoomed = -1;
    const tell = (index) => {
      panel.hidden = false;
      panel.textContent = nodes[index].frame.querySelector("title").textContent;
    };
    const choose = (index) => {
      for (const node of nodes) node.frame.setAttribute("tabindex", "-1");
      nodes[index].frame.setAttribute("tabindex", "0");
      nodes[index].frame.focus();
      tell(index);
    };
    const zoom = (index) => {
      zoomed = index;
      out.hidden = index < 0;
      const chain = new Set(above(index));
      const [from, whole] = index < 0 ? [0, 100] : [nodes[index].left, nodes[index].width || 100];
      nodes.forEach((node, number) => {
        const around = chain.has(number) && number !== index;
        const left = around ? 0 : 100 * (node.left - from) / whole;
        const width = around ? 100 : 100 * node.width / whole;
        const inside = around || index < 0 || number === index || above(number).includes(index);
        node.frame.classList.toggle("gone", !inside);
        node.frame.classList.toggle("around", around);
        node.frame.setAttribute("x", `${left}%`);
        node.frame.setAttribute("width", `${width}%`);
        name(node, width);
      });
    };
    const beside = (index, step) => {
      const same = nodes[index].parent < 0 ? top : nodes[nodes[index].parent].inner;
      return same[same.indexOf(index) + step];
    };
    const visible = (index) => index !== undefined && index >= 0 && !nodes[index].frame.classList.contains("gone");
    const moves = {
      ArrowUp: (index) => nodes[index].parent,
      ArrowDown: (index) => nodes[index].inner[0],
      ArrowLeft: (index) => beside(index, -1),
      ArrowRight: (index) => beside(index, 1),
      Home: () => top[0],
    };
    svg.addEventListener("keydown", (event) => {
      const index = place.get(event.target);
      if (index === undefined) return;
      if (event.key === "Enter" || event.key === " ") zoom(zoomed === index ? nodes[index].parent : index);
      else if (event.key === "Escape") zoom(-1);
      else if (moves[event.key]) {
        const next = moves[event.key](index);
        if (visible(next)) choose(next);
      } else return;
      event.preventDefault();
    });
    svg.addEventListener("click", (event) => {
      const index = place.get(event.target.closest(".f"));
      if (index === undefined) return;
      choose(index);
      zoom(zoomed === index ? nodes[index].parent : index);
    });
    // Not of the picture: one that listens to the focus takes a place among what Tab reaches.
    figure.addEventListener("focusin", (event) => place.has(event.target) && tell(place.get(event.target)));
    out.addEventListener("click", () => zoom(-1));
  };
  // Each is set up when the reader comes near it or into it: there may be a thousand.
  const asleep = new Set(all(".flame"));
  const wake = (figure) => asleep.delete(figure) && flame(figure);
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) wake(entry.target);
  }, { rootMargin: "50%" });
  asleep.forEach((figure) => near.observe(figure));
  addEventListener("focusin", ({ target }) => wake(target.closest(".flame")), true);

  unfold();
})();
