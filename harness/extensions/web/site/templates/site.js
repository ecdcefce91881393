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
    };
    search.addEventListener("input", show);
    addEventListener("keydown", (event) => {
      if (event.key === "/" && !["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName)) {
        event.preventDefault();
        search.focus();
      }
    });
  }

  // The same number of other models, boards and units.
  const elsewhere = document.getElementById("elsewhere");
  if (elsewhere) {
    const link = (page) => new URL(root + page, location.href).pathname;
    load("data/search.js").then((entries) => {
      const begin = `${elsewhere.dataset.title} of `;
      const same = entries.filter(([kind, text, page]) => kind === "number" && text.startsWith(begin) && link(page) !== location.pathname);
      elsewhere.hidden = !same.length;
      elsewhere.querySelector("ul").append(...same.slice(0, 100).map(([, text, page]) => {
        const item = element("li");
        item.append(element("a", text.slice(begin.length).replace(/ \([^()]*\)$/, ""), { href: root + page }));
        return item;
      }));
    });
  }

  // Charts: a point at a time, by pointer or button, and a closer look at a part of the results.
  for (const figure of all(".series figure.curve")) {
    const plot = figure.querySelector(".plot");
    const picture = plot.querySelector("svg");
    const points = all(".dot", plot).map((dot) => ({
      x: parseFloat(dot.getAttribute("d").slice(1)), text: dot.textContent,
    })).sort((a, b) => a.x - b.x);
    if (points.length < 3) continue;
    const upright = all("line, text", plot).flatMap((part) => {
      const at = part.getAttribute("x1") === part.getAttribute("x2") ? part.getAttribute("x1") : null;
      const x = part.tagName === "text" && !part.matches(".y, .percent, .rule") ? part.getAttribute("x") : at;
      return x?.endsWith("%") ? [{ part, x: 10 * parseFloat(x) }] : [];
    });
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [key, value] of Object.entries({ class: "cursor", y1: "0", y2: "100%", visibility: "hidden" })) cursor.setAttribute(key, value);
    plot.append(cursor);
    const tools = element("p", undefined, { class: "tools" });
    const told = element("output");
    let [low, high, chosen] = [0, 1000, points.length - 1];
    const place = (x) => `${100 * (x - low) / (high - low)}%`;
    const inside = (x) => x >= low && x <= high;
    const draw = () => {
      picture.setAttribute("viewBox", `${low} 0 ${high - low} 1000`);
      plot.classList.toggle("zoomed", high - low < 1000);
      for (const { part, x } of upright) {
        for (const name of part.tagName === "text" ? ["x"] : ["x1", "x2"]) part.setAttribute(name, place(x));
        part.setAttribute("visibility", inside(x) ? "visible" : "hidden");
      }
      for (const name of ["x1", "x2"]) cursor.setAttribute(name, place(points[chosen].x));
      cursor.setAttribute("visibility", told.textContent && inside(points[chosen].x) ? "visible" : "hidden");
    };
    const choose = (number) => {
      chosen = Math.max(0, Math.min(points.length - 1, number));
      told.textContent = points[chosen].text;
      const half = (high - low) / 2;
      if (!inside(points[chosen].x)) zoom(points[chosen].x - half, points[chosen].x + half);
      draw();
    };
    const zoom = (from, to) => {
      const wide = Math.max(Math.min(to - from, 1000), Math.min(1000, 2500 / points.length));
      low = Math.max(0, Math.min(1000 - wide, (from + to - wide) / 2));
      high = low + wide;
      draw();
    };
    const nearest = (event) => {
      const box = picture.getBoundingClientRect();
      const x = low + (high - low) * (event.clientX - box.left) / box.width;
      return points.reduce((best, point, number) => (Math.abs(point.x - x) < Math.abs(points[best].x - x) ? number : best), 0);
    };
    let begun = null;
    plot.addEventListener("pointerdown", (event) => { begun = nearest(event); });
    plot.addEventListener("pointermove", (event) => choose(nearest(event)));
    plot.addEventListener("pointerup", (event) => {
      const [a, b] = [begun, nearest(event)].sort((one, other) => one - other);
      if (begun !== null && b - a > 1) zoom(points[a].x, points[b].x);
      begun = null;
    });
    plot.addEventListener("dblclick", () => zoom(0, 1000));
    const middle = () => points[chosen].x;
    const actions = {
      "Earlier result": () => choose(told.textContent ? chosen - 1 : chosen),
      "Later result": () => choose(chosen + 1),
      "Zoom in": () => zoom(middle() - (high - low) / 4, middle() + (high - low) / 4),
      "Show all": () => zoom(0, 1000),
    };
    for (const [name, act] of Object.entries(actions)) {
      const button = element("button", name, { type: "button" });
      button.addEventListener("click", act);
      tools.append(button, " ");
    }
    tools.append(told);
    figure.after(tools);
  }

  // Any two commits: medians of both on the same unit. Only numbers: Python decides what is a change.
  const before = document.getElementById("before");
  if (before) {
    const after = document.getElementById("after");
    const every = document.getElementById("all-rows");
    const headline = document.getElementById("compared");
    const notes = document.getElementById("notes");
    const body = document.querySelector("#table tbody");
    const most = 1000;
    const order = ["vanished", "appeared", "differs", "same"];
    const median = (values) => {
      const sorted = values.toSorted ? values.toSorted((a, b) => a - b) : [...values].sort((a, b) => a - b);
      const half = sorted.length >> 1;
      return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
    };
    const digits = (value) => value.toLocaleString("en", { maximumSignificantDigits: Math.abs(value) >= 1000 ? 9 : 3, maximumFractionDigits: 3, roundingPriority: "lessPrecision" });
    const scales = {
      ns: [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]],
      bytes: [[10 * 1048576, "MiB", 1048576], [10 * 1024, "KiB", 1024], [1, "bytes"]],
      nJ: [[1e3, "uJ"], [1, "nJ"]], ticks: [[1, "ticks"]], count: [[1, "counts"]],
    };
    const shown = (unit, value) => {
      const [from, name, divisor] = scales[unit].find(([least]) => Math.abs(value) >= least) ?? scales[unit].at(-1);
      return `${digits(value / (divisor ?? from))} ${name}`;
    };
    const compare = (series, old, fresh) => {
      const [a, b] = [old, fresh].map((places) => places.map((n) => series.values[n]).filter((value) => value !== null));
      if (!a.length && !b.length) return null;
      const [first, second] = [a, b].map((values) => (values.length ? median(values) : null));
      const outcome = !a.length ? "appeared" : !b.length ? "vanished" : first === second ? "same" : "differs";
      const share = a.length && b.length && first ? second / first - 1 : null;
      return { series, counts: [a.length, b.length], old: first, fresh: second, outcome, share };
    };
    const percent = (share) => `${share > 0 ? "+" : ""}${(100 * share).toFixed(1)} %`;
    let asked = 0;
    const show = async () => {
      const mine = ++asked;
      const index = await load("data/index.js");
      const [a, b] = [index.commits.indexOf(before.value), index.commits.indexOf(after.value)];
      const both = index.models.filter(([, , , commits]) => commits.includes(a) && commits.includes(b));
      const models = await Promise.all(both.map(([file]) => load(file)));
      if (mine !== asked) return;
      const rows = [];
      const built = [];
      const numberless = [];
      for (const model of models) {
        const places = [before.value, after.value].map((commit) => model.results.flatMap((result, n) => (result.commit === commit ? [n] : [])));
        const made = places.map((some) => JSON.stringify([...new Set(some.map((n) => JSON.stringify(model.results[n].built)))].sort()));
        if (made[0] !== made[1]) built.push(model);
        // A result without any number, such as of a board that did not answer, has lost none of them.
        const has = (some) => model.series.some((series) => some.some((n) => series.values[n] !== null));
        if (!places.every(has)) {
          numberless.push(model);
          continue;
        }
        for (const series of model.series) {
          const found = compare(series, places[0], places[1]);
          if (found) rows.push({ ...found, model });
        }
      }
      rows.sort((x, y) => order.indexOf(x.outcome) - order.indexOf(y.outcome) || Math.abs(y.share ?? 0) - Math.abs(x.share ?? 0));
      const count = (outcome) => rows.filter((row) => row.outcome === outcome).length;
      const texts = [["differs", "with a difference"], ["appeared", index.appeared], ["vanished", index.vanished], ["same", "the same"]];
      headline.hidden = false;
      headline.textContent = !both.length ? "No model was tested at both commits on the same unit."
        : texts.map(([outcome, text]) => [count(outcome), text]).filter(([n]) => n).map(([n, text]) => `${n.toLocaleString("en")} ${text}`).join(", ") || "No numbers to compare.";
      const left = index.models.filter(([, , , commits]) => commits.includes(a) !== commits.includes(b)).length;
      const remarks = [];
      if (left) remarks.push(`${left.toLocaleString("en")} models on units were tested at only one of them.`);
      const named = (some) => some.slice(0, 5).map((model) => `${model.model} on ${model.board}`).join("; ") + (some.length > 5 ? ` and ${some.length - 5} more` : "");
      if (built.length) remarks.push(`⚠ Firmware, model file or version differ for ${named(built)}: differences may come from that.`);
      if (numberless.length) remarks.push(`No result has numbers at one of them: ${named(numberless)}.`);
      notes.replaceChildren(...remarks.map((text) => element("p", text, { class: "about" })));
      const wanted = rows.filter((row) => every.checked || row.outcome !== "same");
      document.getElementById("table").hidden = !wanted.length;
      body.replaceChildren(...wanted.slice(0, most).map((found) => {
        const row = element("tr");
        const cell = (content, name = "") => {
          const made = element("td", undefined, name ? { class: name } : {});
          made.append(content);
          row.append(made);
        };
        const side = (value) => (value === null ? "-" : shown(found.series.unit, value));
        const [, title, page] = both[models.indexOf(found.model)];
        cell(element("a", title, { href: root + page }));
        cell(element("a", found.series.title, { href: root + found.series.page }), "name");
        cell(side(found.old), "n");
        cell(side(found.fresh), "n");
        cell(index[found.outcome] ?? (found.share === null ? "-" : percent(found.share)));
        const noise = found.series.noise;
        cell(noise === null ? "unknown" : noise ? `±${Number((100 * noise).toPrecision(2))} %` : "none", "n");
        cell(found.counts.join(", "), "n");
        return row;
      }));
      if (wanted.length > most) notes.append(element("p", `${(wanted.length - most).toLocaleString("en")} more rows are not shown.`, { class: "more" }));
    };
    // The commits are in the address, so that a comparison can be sent to somebody.
    const follow = () => {
      const [a, b] = location.hash.slice(1).split("..").map(decodeURIComponent);
      const pick = (select, commit) => {
        const option = [...select.options].find((one) => one.value === commit) ?? [...select.options].find((one) => one.value.startsWith(commit));
        if (option) select.value = option.value;
      };
      if (a && b) { pick(before, a); pick(after, b); }
      return show();
    };
    const write = () => { location.hash = `${encodeURIComponent(before.value)}..${encodeURIComponent(after.value)}`; };
    before.addEventListener("change", write);
    after.addEventListener("change", write);
    document.getElementById("swap").addEventListener("click", () => {
      [before.value, after.value] = [after.value, before.value];
      write();
    });
    every.addEventListener("change", show);
    addEventListener("hashchange", follow);
    follow();
  }

  // How long ago a page was written, as time goes on: a night that runs writes its page again and again.
  for (const time of all("time.age")) {
    const absolute = time.textContent;
    const show = () => {
      const seconds = Math.max(0, Math.round((Date.now() - Date.parse(time.dateTime)) / 1000));
      const [count, unit] = seconds < 120 ? [seconds, "s"] : seconds < 7200 ? [Math.floor(seconds / 60), "min"]
        : seconds < 172800 ? [Math.floor(seconds / 3600), "h"] : [Math.floor(seconds / 86400), "days"];
      const late = time.dataset.late && seconds > time.dataset.late;
      time.textContent = `${count} ${unit} ago (${absolute})${late ? ", so the process of the night has probably ended" : ""}`;
      time.classList.toggle("late", Boolean(late));
    };
    show();
    setInterval(show, 1000);
  }
})();
