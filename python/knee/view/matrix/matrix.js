"use strict";
(() => {
  const rgb = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const number = (x, digits = 3) => (x === null ? "none" : String(Number(x.toPrecision(digits))));
  const percent = (x) => (x === null ? "none" : `${number(100 * x)} %`);
  const shown = (map, x) => (x === null ? "none" : `${number(x * map.factor)}${map.unit && ` ${map.unit}`}`);

  /** An element with text or children. */
  function make(name, given = {}, ...children) {
    const { data, ...properties } = given;
    const made = Object.assign(document.createElement(name), properties);
    Object.assign(made.dataset, data);
    made.append(...children);
    return made;
  }

  const MOST_WRITTEN = 9;
  const bright = (shade) => {
    const [r, g, b] = (/rgb\((\d+), ?(\d+), ?(\d+)/.exec(shade) ?? [0, 255, 255, 255]).slice(1).map(Number);
    return 0.299 * r + 0.587 * g + 0.114 * b > 140;
  };

  function colour(map, value) {
    if (value === null) return "transparent";
    const [low, high, v] = [map.low, map.high, value].map((x) => (map.log ? Math.log(Math.max(x, 1e-12)) : x));
    const at = Math.min(Math.max((v - low) / (high - low), 0), 1) * (map.colours.length - 1);
    const left = Math.min(Math.floor(at), map.colours.length - 2);
    const [a, b] = [rgb(map.colours[left]), rgb(map.colours[left + 1])];
    return `rgb(${a.map((x, i) => Math.round(x + (b[i] - x) * (at - left))).join(",")})`;
  }

  class Matrix {
    constructor(root) {
      this.root = root;
      this.data = JSON.parse(root.querySelector("script").textContent);
      this.queue = Object.keys(this.data.cells)[0];
      this.families = new Set(this.data.families);
      this.wanted = [];
      this.map = this.data.maps[0].column;
      this.pair = this.data.start;
      this.controls();
      this.draw();
      this.listen();
    }

    find(selector) { return this.root.querySelector(selector); }

    value(figure, i, j) { return this.data.cells[this.queue][figure][i][j]; }

    shownRows() {
      const passes = (name, i) => this.families.has(this.data.families[i])
        && (this.wanted.length === 0 || this.wanted.some((word) => name.startsWith(word)));
      return this.data.names.flatMap((name, i) => (passes(name, i) ? [i] : []));
    }

    /** Where the chosen pair is filtered out, the one that shares least fairly is worth a look. */
    leastFair() {
      const rows = this.shownRows();
      const pairs = rows.flatMap((i) => rows.map((j) => [i, j])).filter(([i, j]) => this.value("jain", i, j) !== null);
      return pairs.reduce((best, pair) => (this.value("jain", ...pair) < this.value("jain", ...best) ? pair : best),
        pairs[0] ?? [0, 0]);
    }

    controls() {
      const { names, families, maps, cells } = this.data;
      const options = () => names.map((name, i) => make("option", { value: i }, name));
      this.find(".matrix-first").append(...options());
      this.find(".matrix-second").append(...options());
      const queues = Object.keys(cells).map((queue) => make("option", {}, queue));
      const filter = this.find(".matrix-filter");
      if (queues.length > 1) filter.append(make("label", {}, "Queue ", make("select", {}, ...queues)));
      filter.append(...[...new Set(families)].map((family) => make("label", {},
        make("input", { type: "checkbox", checked: true, value: family }), family)));
      const only = make("input", { type: "text", placeholder: "such as cubic bbr", ariaLabel: "algorithms to show" });
      filter.append(make("label", {}, "Only ", only));
      this.find(".matrix-tabs").append(...maps.map((map) => make("button",
        { type: "button", className: "button", ariaPressed: String(map.column === this.map), data: { map: map.column } },
        map.title)));
    }

    draw() {
      const rows = this.shownRows();
      const { families } = this.data;
      this.bounds = new Set(rows.filter((i, at) => at && families[i] !== families[rows[at - 1]]));
      const maps = this.find(".matrix-maps");
      if (rows.length === 0) {
        maps.replaceChildren(make("p", { className: "none" }, "No algorithm passes the filter."));
        return;
      }
      if (!this.pair.every((i) => rows.includes(i))) this.pair = this.leastFair();
      maps.replaceChildren(...this.data.maps.map((map) => this.figure(map, rows)));
      this.say();
    }

    figure(map, rows) {
      const { names } = this.data;
      // Few algorithms have room for numbers in the cells.
      const written = rows.length <= MOST_WRITTEN;
      const bound = (i) => (this.bounds.has(i) ? "bound" : "");
      const heads = rows.map((j) => make("th", { scope: "col", className: bound(j), data: { column: j } },
        make("span", {}, names[j])));
      const body = rows.map((i) => make("tr", { className: this.bounds.has(i) ? "bound-row" : "" },
        make("th", { scope: "row", data: { row: i } }, names[i]),
        ...rows.map((j) => {
          const value = this.value(map.column, i, j);
          const said = `${names[i]}, then ${names[j]}: ${shown(map, value)}`;
          const text = written && value !== null ? number(value * map.factor, 2) : "";
          const cell = make("td", { className: bound(j), tabIndex: -1, ariaLabel: said, data: { i, j } }, text);
          cell.style.backgroundColor = colour(map, value);
          if (text) cell.style.color = bright(cell.style.backgroundColor) ? "#111" : "#fff";
          return cell;
        })));
      const bar = make("i");
      bar.style.background = `linear-gradient(90deg, ${map.colours.join(", ")})`;
      const table = make("table", { role: "grid", ariaLabel: map.title, className: written ? "written" : "" },
        make("thead", {}, make("tr", {}, make("th"), ...heads)), make("tbody", {}, ...body));
      const figure = make("figure", { data: { map: map.column } },
        make("h3", {}, `${map.title} `, make("small", {}, map.hint)),
        make("div", { className: "matrix-scale" }, shown(map, map.low), bar, shown(map, map.high), make("output")),
        make("div", { className: "scroll" }, table));
      figure.classList.toggle("chosen", map.column === this.map);
      return figure;
    }

    say() {
      const [i, j] = this.pair;
      const { names, runs } = this.data;
      this.find(".matrix-first").value = i;
      this.find(".matrix-second").value = j;
      const share = this.value("share", i, j);
      const line = (name, part, which, loss) => make("tr", {}, make("th", { scope: "row" }, name),
        ...[percent(part), number(this.value(`${which}_goodput_mbps`, i, j)),
          number(this.value(`${which}_rtt_mean_ms`, i, j)), percent(loss)].map((text) => make("td", {}, text)));
      this.find(".matrix-pair tbody").replaceChildren(
        line(names[i], share, "first", this.value("loss", i, j)),
        line(names[j], share === null ? null : 1 - share, "second", this.value("second_loss", i, j)));
      this.find(".matrix-both").textContent = `Jain's index ${number(this.value("jain", i, j))}; the first one's RTT is `
        + `${number(this.value("rtt_inflation", i, j))} times its base; link ${percent(this.value("utilization", i, j))} `
        + "in use.";
      const { folder, report, command } = runs[this.queue][i][j];
      const link = (file, text) => make("a", { href: `${folder}/${file}` }, text);
      this.find(".matrix-run").replaceChildren(...(report ? [link("report.html", "Report of this run"), "; "] : []),
        ...(folder ? [link("scenario.toml", "scenario"), ", ", link("summary.json", "all figures")] : []),
        ...(report || !command ? [] : [folder ? "; with a report: " : "This run with its report: ", make("code", {}, command)]));
      for (const on of this.root.querySelectorAll(".on")) on.classList.remove("on");
      for (const cell of this.root.querySelectorAll("td[tabindex='0']")) cell.tabIndex = -1;
      for (const cell of this.root.querySelectorAll(`td[data-i="${i}"][data-j="${j}"]`)) {
        cell.classList.add("on");
        cell.tabIndex = 0;
      }
      for (const head of this.root.querySelectorAll(`th[data-row="${i}"], th[data-column="${j}"]`)) {
        head.classList.add("on");
      }
    }

    choose(i, j) {
      this.pair = [i, j];
      this.say();
    }

    listen() {
      const cellOf = (event) => event.target.closest?.("td[data-i]");
      this.root.addEventListener("click", (event) => {
        const cell = cellOf(event);
        if (cell) {
          this.choose(Number(cell.dataset.i), Number(cell.dataset.j));
          cell.focus({ preventScroll: true });
        }
        const tab = event.target.closest(".matrix-tabs button");
        if (tab) this.tab(tab.dataset.map);
      });
      this.root.addEventListener("pointerover", (event) => {
        const cell = event.pointerType === "mouse" && cellOf(event);
        if (cell) cell.closest("figure").querySelector("output").textContent = cell.ariaLabel;
      });
      this.root.addEventListener("keydown", (event) => this.key(event, cellOf(event)));
      for (const select of this.root.querySelectorAll(".matrix-pair select")) {
        select.addEventListener("change", () => {
          this.choose(Number(this.find(".matrix-first").value), Number(this.find(".matrix-second").value));
        });
      }
      const filter = this.find(".matrix-filter");
      filter.addEventListener("input", () => {
        this.queue = filter.querySelector("select")?.value ?? this.queue;
        this.families = new Set([...filter.querySelectorAll("input:checked")].map((input) => input.value));
        const words = filter.querySelector('input[type="text"]').value.toLowerCase();
        this.wanted = words.split(/[\s,]+/).filter(Boolean);
        this.draw();
      });
    }

    tab(column) {
      this.map = column;
      for (const button of this.root.querySelectorAll(".matrix-tabs button")) {
        button.ariaPressed = String(button.dataset.map === column);
      }
      for (const figure of this.root.querySelectorAll(".matrix-maps figure")) {
        figure.classList.toggle("chosen", figure.dataset.map === column);
      }
    }

    /** Arrow keys go from cell to cell; Enter goes where the cell leads. */
    key(event, cell) {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!cell || !(step || event.key === "Enter")) return;
      event.preventDefault();
      if (!step) {
        this.find(".matrix-run a").click();
        return;
      }
      const rows = this.shownRows();
      const at = [cell.dataset.i, cell.dataset.j].map((i) => rows.indexOf(Number(i)));
      const [i, j] = at.map((place, k) => rows[Math.min(Math.max(place + step[k], 0), rows.length - 1)]);
      this.choose(i, j);
      cell.closest("table").querySelector(`td[data-i="${i}"][data-j="${j}"]`).focus();
    }
  }

  for (const root of document.querySelectorAll(".matrix")) new Matrix(root);
})();
