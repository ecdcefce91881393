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
    search.addEventListener("keydown", (event) => { if (event.key === "Escape") { search.value = ""; show(); } });
    addEventListener("keydown", (event) => {
      if (event.key === "/" && !["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName)) {
        event.preventDefault();
        (document.getElementById("filter") ?? search).focus();
      }
    });
  }

  // The matrix: which models and boards are shown, and in which order; the address has all of it.
  const matrix = document.getElementById("matrix-table");
  if (matrix) {
    const body = matrix.tBodies[0];
    const filter = document.getElementById("filter");
    const board = document.getElementById("board");
    const order = document.getElementById("sort");
    const changes = document.querySelector("[data-only]");
    const chips = all("[data-state]", document.getElementById("matrix-tools"));
    const counted = document.getElementById("counted");
    const rows = all("tr", body).map((row, place) => ({ row, place, name: row.cells[0].textContent.trim(), cells: [...row.cells].slice(1) }));
    const names = all("thead th", matrix).slice(1).map((head) => head.textContent);
    const number = (cell, key) => Number(cell.dataset[key] ?? 0);
    const highest = (some, key) => Math.max(0, ...some.map((cell) => number(cell, key)));
    for (const [at, name] of names.entries()) {
      for (const [key, what] of [["c", "change"], ["t", "time"]]) order.append(element("option", `${what} on ${name}`, { value: `${key}${at + 1}` }));
    }
    const pressed = (button) => button.getAttribute("aria-pressed") === "true";
    const press = (button, on) => button.setAttribute("aria-pressed", on);
    const show = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const at = Number(board?.value || 0);
      const state = chips.find(pressed)?.dataset.state;
      const shown = ({ cells }) => (at ? [cells[at - 1]] : cells);
      let count = 0;
      for (const item of rows) {
        const some = shown(item).filter((cell) => cell.dataset.s);
        const fits = words.every((word) => item.name.toLowerCase().includes(word))
          && (!at || some.length) && (!state || some.some((cell) => cell.dataset.s === state))
          && (!pressed(changes) || some.some((cell) => cell.dataset.c || cell.dataset.s !== "pass"));
        item.row.hidden = !fits;
        count += fits;
      }
      for (const row of matrix.rows) [...row.cells].slice(1).forEach((cell, n) => { cell.hidden = at > 0 && n + 1 !== at; });
      const key = order.value;
      const value = (item) => key === "worst" ? highest(shown(item), "c") : key === "time" ? highest(shown(item), "t")
        : key ? number(item.cells[Number(key.slice(1)) - 1], key[0]) : 0;
      const sorted = rows.map((item) => [value(item), item]).sort(([a, x], [b, y]) => b - a || x.place - y.place);
      body.append(...sorted.map(([, item]) => item.row));
      for (const [n, head] of all("thead th", matrix).entries()) {
        const here = n ? key.slice(1) === String(n) : !key;
        if (here) head.setAttribute("aria-sort", n ? "descending" : "ascending"); else head.removeAttribute("aria-sort");
      }
      counted.textContent = count === rows.length ? "" : `${count} of ${rows.length} models`;
    };
    const save = () => {
      const state = new URLSearchParams();
      if (filter.value) state.set("q", filter.value);
      if (pressed(changes)) state.set("only", "changes");
      const chip = chips.find(pressed);
      if (chip) state.set("state", chip.dataset.state);
      if (board?.value) state.set("board", names[board.value - 1].length > 40 ? board.value : names[board.value - 1]);
      if (order.value) state.set("sort", order.value);
      history.replaceState(null, "", `#${state}`);
    };
    const read = () => {
      const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
      filter.value = state.get("q") ?? "";
      press(changes, state.get("only") === "changes");
      for (const chip of chips) press(chip, chip.dataset.state === state.get("state"));
      const name = state.get("board") ?? "";
      if (board) board.value = names.includes(name) ? names.indexOf(name) + 1 : name in board.options ? name : "";
      order.value = state.get("sort") ?? "";
      if (!order.selectedOptions.length) order.value = "";
      show();
    };
    const changed = () => { show(); save(); };
    filter.addEventListener("input", changed);
    filter.addEventListener("keydown", (event) => { if (event.key === "Escape") { filter.value = ""; changed(); } });
    for (const select of [board, order]) select?.addEventListener("change", changed);
    for (const chip of [changes, ...chips]) {
      chip.addEventListener("click", () => {
        const on = !pressed(chip);
        if (chip !== changes) for (const other of chips) press(other, false);
        press(chip, on);
        changed();
      });
    }
    // A click on a board sorts by its changes, then by its times; on the model by name.
    for (const [n, head] of all("thead th", matrix).entries()) {
      const button = element("button", undefined, { type: "button" });
      button.append(...head.childNodes);
      button.addEventListener("click", () => {
        order.value = !n ? "" : order.value === `c${n}` ? `t${n}` : `c${n}`;
        changed();
      });
      head.append(button);
    }
    addEventListener("hashchange", read);
    read();
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
    plot.dataset.ready = "";
    const commits = [];
    points.forEach(({ x, text }, n) => {
      const commit = /commit (\S+)$/.exec(text)?.[1];
      if (commit && commit !== commits.at(-1)?.commit) commits.push({ x, commit });
    });
    let last = -1000;
    for (const { x, commit } of commits) {
      if (x - last < 110) continue;
      last = x;
      const label = document.createElementNS("http://www.w3.org/2000/svg", "text");
      for (const [key, value] of Object.entries({ class: "x commit wide", x: `${x / 10}%`, y: "100%", dy: "18" })) label.setAttribute(key, value);
      label.textContent = commit;
      plot.append(label);
    }
    const upright = all("line, text", plot).flatMap((part) => {
      const at = part.getAttribute("x1") === part.getAttribute("x2") ? part.getAttribute("x1") : null;
      const x = part.tagName === "text" && !part.matches(".y, .percent, .rule") ? part.getAttribute("x") : at;
      return x?.endsWith("%") ? [{ part, x: 10 * parseFloat(x) }] : [];
    });
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
    for (const [key, value] of Object.entries({ class: "cursor", y1: "0", y2: "100%", visibility: "hidden" })) cursor.setAttribute(key, value);
    const band = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [key, value] of Object.entries({ class: "chosen", y: "0", height: "100%", width: "0", visibility: "hidden" })) band.setAttribute(key, value);
    plot.append(cursor, band);
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
    const drag = (event) => {
      const [a, b] = [begun, nearest(event)].sort((one, other) => one - other).map((n) => 100 * (points[n].x - low) / (high - low));
      band.setAttribute("x", `${a}%`);
      band.setAttribute("width", `${b - a}%`);
      band.setAttribute("visibility", "visible");
    };
    const end = () => { begun = null; band.setAttribute("visibility", "hidden"); };
    plot.addEventListener("pointerdown", (event) => { if (event.button === 0) begun = nearest(event); });
    plot.addEventListener("pointermove", (event) => { choose(nearest(event)); if (begun !== null) drag(event); });
    plot.addEventListener("pointerup", (event) => {
      if (begun !== null) {
        const [a, b] = [begun, nearest(event)].sort((one, other) => one - other);
        if (b - a > 1) zoom(points[a].x, points[b].x);
      }
      end();
    });
    addEventListener("pointerup", end);
    plot.addEventListener("dblclick", () => zoom(0, 1000));
    const middle = () => points[chosen].x;
    const actions = {
      "Earlier result": () => choose(told.textContent ? chosen - 1 : chosen),
      "Later result": () => choose(chosen + 1),
      "Zoom in": () => zoom(middle() - (high - low) / 4, middle() + (high - low) / 4),
      "Show all": () => zoom(0, 1000),
    };
    if (commits.length) {
      const by = element("button", "Commits", { type: "button", "aria-pressed": "false" });
      by.addEventListener("click", () => {
        const on = plot.classList.toggle("by-commit");
        by.setAttribute("aria-pressed", on);
        by.textContent = on ? "Dates" : "Commits";
      });
      tools.append(by, " ");
    }
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
    // Sign and word together; the colour is that of what lies beyond the noise.
    const difference = ({ series, old, fresh, share, outcome }) => {
      if (outcome === "same") return "no difference";
      const word = words[series.kind][fresh > old ? 0 : 1];
      const size = share === null ? "" : `${share > 0 ? "+" : ""}${(100 * share).toFixed(1)} % `;
      return `${size}${word}`;
    };
    let asked = 0;
    let words = {};
    const show = async () => {
      const mine = ++asked;
      const index = await load("data/index.js");
      words = index.words;
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
      // Whether a step of a series, which Python found, begins after the first commit.
      const [low, high] = a < b ? [a, b] : [b, a];
      const between = new Set(index.commits.slice(low + 1, high + 1));
      for (const row of rows) {
        if (row.outcome !== "differs") continue;
        const stepped = row.series.steps.some((step) => between.has(step.first_bad));
        row.beyond = stepped || (row.share !== null && row.series.noise !== null && Math.abs(row.share) > 2 * row.series.noise);
        if (!row.beyond) row.outcome = "noise";
      }
      const role = (row) => ["execution", "peak"].indexOf(row.series.role) >>> 0;
      rows.sort((x, y) => role(x) - role(y) || (y.fresh > y.old) - (x.fresh > x.old) || Math.abs(y.share ?? 0) - Math.abs(x.share ?? 0));
      const of = (outcome) => rows.filter((row) => row.outcome === outcome);
      const worse = of("differs").filter((row) => row.share > 0 || row.fresh > row.old);
      const whole = worse.filter((row) => row.series.role === "execution");
      const texts = [["differs", "numbers differ beyond the noise"], ["noise", "within the noise"], ["appeared", index.appeared], ["vanished", index.vanished], ["same", "the same"]];
      const counts = texts.map(([outcome, text]) => [of(outcome).length, text]).filter(([n]) => n).map(([n, text]) => `${n.toLocaleString("en")} ${text}`).join(", ");
      const first = [...whole, ...worse][0];
      headline.hidden = false;
      headline.className = `headline ${first ? "fail" : "same"}`;
      headline.textContent = !both.length ? "No model was tested at both commits on the same unit."
        : `${first ? `${first.model.model} on ${first.model.board}${first.series.role === "execution" ? "" : `: ${first.series.title}`} is ${difference(first).replace(/^\+/, "")}; ` : ""}${counts || "No numbers to compare."}`;
      const left = index.models.filter(([, , , commits]) => commits.includes(a) !== commits.includes(b)).length;
      const remarks = [];
      if (left) remarks.push(`${left.toLocaleString("en")} models on units were tested at only one of them.`);
      const listed = (some) => some.slice(0, 5).map((model) => `${model.model} on ${model.board}`).join("; ") + (some.length > 5 ? ` and ${some.length - 5} more` : "");
      if (built.length) remarks.push(`⚠ Firmware, model file or version differ for ${listed(built)}: differences may come from that.`);
      if (numberless.length) remarks.push(`No result has numbers at one of them: ${listed(numberless)}.`);
      notes.replaceChildren(...remarks.map((text) => element("p", text, { class: "about" })));
      const wanted = rows.filter((row) => row.outcome === "differs" || (every.checked && ["noise", "same"].includes(row.outcome)));
      document.getElementById("table").hidden = !rows.length;
      const named = new Map(models.map((model, n) => [model, both[n]]));
      const link = (row) => element("a", row.series.title, { href: root + row.series.page });
      const line = (found) => {
        const row = element("tr");
        const cell = (content, name = "") => {
          const made = element("td", undefined, name ? { class: name } : {});
          made.append(...[content].flat());
          row.append(made);
        };
        const side = (value) => (value === null ? "-" : shown(found.series.unit, value));
        const [, title, page] = named.get(found.model);
        const of = element("span", undefined, { class: "of" });
        of.append(element("a", title, { href: root + page }));
        cell([link(found), of], "name");
        const look = found.outcome !== "differs" ? "" : found.fresh > found.old ? "regression" : "improvement";
        cell(element("span", difference(found), { class: `change ${look}` }));
        cell(side(found.old), "n");
        cell(side(found.fresh), "n");
        const noise = found.series.noise;
        cell(noise === null ? "unknown" : noise ? `±${Number((100 * noise).toPrecision(2))} %` : "none", "n");
        cell(found.counts.join(", "), "n");
        return row;
      };
      // Numbers that only one of the commits has are one line each way, and do not hide the others.
      const folded = ["appeared", "vanished"].filter((outcome) => of(outcome).length).map((outcome) => {
        const some = of(outcome);
        const fold = element("details", undefined, { class: "fold" });
        fold.append(element("summary", `${some.length.toLocaleString("en")} ${some.length === 1 ? "number" : "numbers"} ${index[outcome]}`));
        const list = element("ul", undefined, { class: "plain" });
        list.append(...some.slice(0, most).map((row) => {
          const item = element("li");
          item.append(link(row), ` of ${named.get(row.model)[1]}`);
          return item;
        }));
        fold.append(list);
        const row = element("tr");
        const cell = element("td", undefined, { colspan: 6 });
        cell.append(fold);
        row.append(cell);
        return row;
      });
      if (!wanted.length) {
        const row = element("tr");
        row.append(element("td", "Nothing differs beyond the noise.", { colspan: 6 }));
        folded.unshift(row);
      }
      body.replaceChildren(...wanted.slice(0, most).map(line), ...folded);
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
