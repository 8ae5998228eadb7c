"use strict";
// The charts of a page, each drawn when it comes near the window. Their names stand above them as buttons that hide and
// show; a zoom of one time axis is a zoom of all. A chart is what knee.view.page writes: panels of series.
const charts = (() => {
  const { shortened, themed, theme, system, FONT } = drawing;
  const { horizontal, vertical } = scaling;
  const NEAR_PX = 24;
  const MOST_HOVERED = 8;
  const drawn = new Map();
  const hidden = new Set();
  const busy = new Set();
  let choice = null;

  // The data: one compressed block of arrays for each chart, bytes of equal weight together.

  async function arrays({ block, lengths }) {
    if (!block) return [];
    const bytes = Uint8Array.from(atob(block), (sign) => sign.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const planes = new Uint8Array(await new Response(stream).arrayBuffer());
    const count = planes.length / 4;
    const whole = new Uint8Array(planes.length);
    for (let i = 0; i < count; i += 1) for (let k = 0; k < 4; k += 1) whole[4 * i + k] = planes[k * count + i];
    const values = new Float32Array(whole.buffer);
    let at = 0;
    return lengths.map((length) => {
      at += length;
      return values.subarray(at - length, at);
    });
  }

  const FIELDS = ["x", "y", "low", "high", "half"];
  const isSeries = (item) => item.kind !== "spans" && item.kind !== "rules" && item.kind !== "heat";

  /** Puts arrays where a chart has their numbers. */
  async function unpacked(chart) {
    if (!chart.data) return chart;
    const found = await arrays(chart.data);
    for (const panel of chart.panels) {
      for (const item of panel.items) {
        for (const field of isSeries(item) ? FIELDS : ["x"]) {
          const given = item[field];
          if (typeof given === "number") item[field] = found[given];
          else if (given?.step) item[field] = Float32Array.from({ length: given.count }, (_, i) => given.start + i * given.step);
        }
      }
    }
    return chart;
  }

  // What is shown.

  const shows = (item) => (choice === null || !item.choices?.length || item.choices.includes(choice)) && !hidden.has(item.toggle);
  const xOf = (chart, panel) => panel.x ?? chart.x;

  /** The ends of the vertical axis: those given, or the shown series' within the horizontal ends. */
  function ends(panel, [from, to]) {
    if (panel.rows) return [-0.5, panel.rows.length - 0.5];
    // Bands that reach below the floor are cut off there; data are not.
    let [low, high, least] = [Infinity, -Infinity, Infinity];
    const bound = (value) => {
      if (panel.log && !(value > 0)) return;
      if (value < low) low = value;
      if (value > high) high = value;
    };
    const take = (value) => {
      bound(value);
      if (value < least) least = value;
    };
    const given = panel.log && panel.floor <= 0 ? null : panel.floor;
    for (const item of panel.items.filter((one) => isSeries(one) && shows(one))) {
      const seen = (x) => x >= from && x <= to;
      if (item.kind === "band") item.x.forEach((x, i) => { if (seen(x)) { bound(item.low[i]); bound(item.high[i]); } });
      else if (item.kind === "boxes") item.five.forEach((five, i) => [...five, ...(item.beyond?.[i] ?? [])].forEach(take));
      else item.x.forEach((x, i) => { if (seen(x)) { take(item.y[i]); take(item.y[i] + (item.half?.[i] ?? 0)); } });
      // A step holds until the next.
      if (item.step) take(item.y[Math.max(drawing.lower(item.x, from) - 1, 0)]);
    }
    if (low > high) [low, high] = panel.log ? [1, 10] : [0, 1];
    if (panel.log) return [given !== null && given <= least ? given : low / 1.15, panel.ceiling ?? high * 1.15];
    if (panel.ceiling !== null) return [given ?? 0, panel.ceiling];
    const room = 0.05 * (high - low || Math.abs(high) || 1);
    const bottom = given !== null && given <= least ? given : low - room;
    const top = high + room;
    return [bottom, panel.headroom ? bottom + (top - bottom) / (1 - panel.headroom) : top];
  }

  /** A uPlot of one panel. */
  function plot(chart, index, size, target, where, zoomed, listen) {
    const panel = chart.panels[index];
    const axis = xOf(chart, panel);
    const own = Boolean(panel.x);
    const columns = size.columns;
    // Panels below each other share the numbers of the last; in a grid each has its own.
    const last = own || chart.columns > 1 || index + columns >= chart.panels.length;
    const first = index % columns === 0 || own || Boolean(panel.rows);
    const range = zoomed ?? [axis.low, axis.high];
    // Names may need more room than numbers; panels below each other begin at one place.
    const names = (chart.columns > 1 ? [panel] : chart.panels).flatMap(({ rows }) => rows ?? []);
    const wide = names.length ? Math.min(Math.max(...names.map((name) => name.length), 3), 18) * 6.6 + 8 : null;
    const options = {
      width: size.width, height: size.height, padding: [panel.title ? 22 : 8, 12, 0, 0], legend: { show: false }, pxAlign: 0,
      series: [{}], drawOrder: ["axes", "series"],
      scales: {
        x: { time: false, distr: axis.log ? 3 : 1, range: (u, low, high) => [low, high] },
        y: { auto: false, distr: panel.log ? 3 : 1, range: () => u_ends },
      },
      axes: [horizontal(axis, size.width - 76, where, last), vertical(first ? panel : { ...panel, label: "" }, where, size.width < 480, wide, size.height - 40)],
      cursor: { show: Boolean(listen), points: { show: false }, y: false, drag: { x: true, y: false, setScale: false, dist: 6 },
        bind: { dblclick: () => () => null } },
      hooks: { draw: [(u) => draw(u, panel)] },
    };
    let u_ends = panel.note ? [0, 1] : ends(panel, range);
    if (panel.note) options.axes[1].values = () => [];
    const u = new uPlot(options, [range], target);
    u.knee = { theme: where, panel, chart, axis, index, fit: (to) => { u_ends = panel.note ? [0, 1] : ends(panel, to); return u_ends; } };
    u.setScale("y", { min: u_ends[0], max: u_ends[1] });
    return u;
  }

  function draw(u, panel) {
    const { ctx } = u;
    const ratio = uPlot.pxRatio;
    const order = ["spans", "heat", "band", "bars", "boxes", "line", "marks", "rules"];
    const items = panel.items.filter(shows);
    drawing.panel(u, order.flatMap((kind) => items.filter((item) => item.kind === kind)));
    ctx.save();
    ctx.textAlign = "center";
    const middle = u.bbox.left + u.bbox.width / 2;
    if (panel.title) {
      ctx.font = `${12 * ratio}px ${FONT}`;
      ctx.fillStyle = themed("ink", u.knee.theme);
      ctx.textBaseline = "bottom";
      ctx.fillText(panel.title, middle, u.bbox.top - 4 * ratio);
    }
    if (panel.note) {
      ctx.font = `${13 * ratio}px ${FONT}`;
      ctx.fillStyle = themed("muted", u.knee.theme);
      ctx.textBaseline = "middle";
      ctx.fillText(panel.note, middle, u.bbox.top + u.bbox.height / 2);
    }
    ctx.restore();
  }

  /** How panels lie: the width and height of each. */
  function layout(chart, width, height) {
    const count = chart.panels.length;
    const columns = chart.columns === 1 || width < 640 ? 1 : Math.min(chart.columns, count);
    const rows = Math.ceil(count / columns);
    const each = chart.columns > 1 ? Math.max(230, height / rows) : height / rows;
    return { columns, rows, width: Math.floor(width / columns), height: Math.floor(each) };
  }

  // The page.

  function track(promise) {
    busy.add(promise);
    return promise.finally(() => busy.delete(promise));
  }

  const show = (element, chart) => track(unpacked(chart).then(() => render(element, chart)));

  function render(element, chart) {
    drawn.get(element)?.plots.forEach((u) => u.destroy());
    for (const item of chart.panels.flatMap(({ items }) => items)) item.toggle = toggleOf(element, item.name);
    // A chart of several rows is as high as they need.
    const rows = layout(chart, element.clientWidth, 0).rows;
    element.style.height = chart.columns > 1 || chart.tall ? `${Math.max(rows * (chart.tall ?? 250), 300)}px` : "";
    const size = layout(chart, element.clientWidth, element.clientHeight);
    element.style.setProperty("--columns", size.columns);
    element.replaceChildren();
    const zoomed = drawn.get(element)?.chart === chart ? drawn.get(element).zoomed : null;
    const state = { chart, plots: [], width: element.clientWidth, zoomed: zoomed ?? zoomOf(element, chart) };
    drawn.set(element, state);
    state.plots = chart.panels.map((_, i) => {
      const u = plot(chart, i, height(chart, i, size), element, theme(), state.zoomed, true);
      listen(element, u);
      return u;
    });
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", chart.title || "chart");
    legend(element, chart);
    watch.observe(element);
  }

  /** The size of a panel: the last row has the axis's numbers and title as well. */
  function height(chart, index, size) {
    if (chart.columns > 1 || chart.panels.some((panel) => panel.x) || size.rows === 1) return size;
    const last = index + size.columns >= chart.panels.length;
    const extra = 34;
    return { ...size, height: Math.floor(size.height + (last ? extra * (size.rows - 1) / size.rows : -extra / size.rows)) };
  }

  // All charts of a page, or of a part that has runs of its own, share their time and which names are hidden.
  const shared = new Map();
  const part = (element) => element.closest(".own-runs");
  const toggleOf = (element, name) => `${part(element)?.id ?? ""}/${name}`;
  const zoomOf = (element, chart) => (chart.x?.time && shared.get(part(element))) || null;

  /** Shows a stretch of the horizontal axis; of time, in all charts that share it. */
  function zoom(element, u, range) {
    const time = u.knee.axis.time;
    if (time) shared.set(part(element), range);
    for (const [other, state] of drawn) {
      if (other !== element && !(time && state.chart.x?.time && part(other) === part(element))) continue;
      state.zoomed = range;
      for (const one of state.plots) {
        if (one !== u && one.knee.panel.x && !time) continue;
        const [low, high] = range ?? [one.knee.axis.low, one.knee.axis.high];
        const [bottom, top] = one.knee.fit([low, high]);
        one.batch(() => {
          one.setScale("x", { min: low, max: high });
          one.setScale("y", { min: bottom, max: top });
        });
      }
    }
  }

  function listen(element, u) {
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    u.over.append(tip);
    u.over.addEventListener("dblclick", () => zoom(element, u, null));
    u.over.addEventListener("mousemove", (event) => hover(u, tip, event));
    u.over.addEventListener("mouseleave", () => { tip.hidden = true; });
    touch.attach(u, (range) => zoom(element, u, range));
    // uPlot stops clicks at the end of their way; a drag is none.
    let down = null;
    u.root.addEventListener("mousedown", (event) => { down = event.clientX; }, true);
    u.root.addEventListener("click", (event) => {
      const [nearest] = near_(u, event);
      const dragged = down !== null && Math.abs(event.clientX - down) > 4;
      if (!dragged && nearest?.item.rows && element.onpick) element.onpick(nearest.item.rows[nearest.index], nearest);
    }, true);
    u.hooks.setSelect = [(one) => {
      const { left, width } = one.select;
      if (width < 6 || u.knee.axis.names) return;
      const range = [one.posToVal(left, "x"), one.posToVal(left + width, "x")];
      one.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      zoom(element, one, range);
    }];
  }

  /** The points near the pointer, the nearest first: of lines over time those at its time, else those near it. */
  function near_(u, event) {
    const box = u.over.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const [x, y] = [u.posToVal(px, "x"), u.posToVal(py, "y")];
    const ratio = uPlot.pxRatio;
    const [X, Y] = drawing.places(u);
    const distance = (a, b) => Math.hypot((X(a) - u.bbox.left) / ratio - px, (Y(b) - u.bbox.top) / ratio - py);
    const found = [];
    for (const item of u.knee.panel.items.filter(shows)) {
      if (item.kind === "heat") {
        const [i, j] = [Math.round(x), Math.round(y)];
        const value = item.z[j]?.[i];
        if (Number.isFinite(value)) found.push({ item, index: j * item.z[0].length + i, x: i, y: value, row: j, distance: 0 });
      } else if (item.kind === "boxes" || item.kind === "bars") {
        item.x.forEach((at, i) => { if (Math.abs(x - at) <= item.width / 2) found.push({ item, index: i, x: at, y: item.y?.[i], distance: 0 }); });
      } else if (item.kind === "line" && u.knee.axis.time) {
        if (!item.name) continue;
        let i = drawing.lower(item.x, x);
        if (i > 0 && (item.step || i === item.x.length || x - item.x[i - 1] < item.x[i] - x)) i -= 1;
        if (Number.isFinite(item.y[i])) found.push({ item, index: i, x: item.x[i], y: item.y[i], distance: Math.abs((Y(item.y[i]) - u.bbox.top) / ratio - py) });
      } else if (item.kind === "line" || item.kind === "marks") {
        let best = null;
        for (let i = 0; i < item.x.length; i += 1) {
          const away = distance(item.x[i], item.y[i]);
          if (away < (best?.distance ?? NEAR_PX)) best = { item, index: i, x: item.x[i], y: item.y[i], distance: away };
        }
        if (best) found.push(best);
      }
    }
    return found.sort((a, b) => a.distance - b.distance);
  }

  function hover(u, tip, event) {
    const { panel, axis } = u.knee;
    const found = near_(u, event);
    const marks = found.filter(({ item, distance }) => item.kind === "marks" && distance < 12);
    const listed = marks.length ? marks.slice(0, 1) : found.slice(0, axis.time ? MOST_HOVERED : 1);
    tip.hidden = listed.length === 0;
    if (tip.hidden) return;
    const unit = panel.unit ? ` ${panel.unit}` : "";
    const said = (value) => (axis.names ? axis.names[Math.round(value)] : `${shortened(value, 5)}${axis.unit ? ` ${axis.unit}` : ""}`);
    const head = document.createElement("b");
    head.textContent = listed[0].row === undefined ? said(listed[0].x) : `${panel.rows[listed[0].row]}, ${said(listed[0].x)}`;
    tip.replaceChildren(head, ...listed.map(({ item, index, y }) => {
      const line = document.createElement("div");
      const swatch = document.createElement("i");
      if (item.colour) swatch.style.background = themed(item.colour, u.knee.theme);
      const half = item.half?.[index] > 0 ? ` ± ${shortened(item.half[index], 3)}` : "";
      const value = item.five ? item.five[index].map((one) => shortened(one)).join(" · ") : shortened(y);
      line.append(item.colour ? swatch : "", item.texts?.[index] ?? `${item.name ? `${item.name}: ` : ""}${value}${half}${unit}`);
      return line;
    }));
    const box = u.over.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    tip.style.left = `${px > box.width / 2 ? px - tip.offsetWidth - 12 : px + 12}px`;
    tip.style.top = `${Math.min(Math.max(py - tip.offsetHeight / 2, 0), Math.max(box.height - tip.offsetHeight, 0))}px`;
  }

  // Names above a chart, as buttons.

  const LEGEND = { line: 1, band: 1, marks: 1, spans: 1, rules: 1, bars: 1, boxes: 1 };

  function named(chart) {
    const found = new Map();
    const marks = (item) => item.kind === "spans" || item.kind === "rules";
    // Series first, then what happened.
    for (const late of [false, true]) {
      for (const item of chart.panels.flatMap(({ items }) => items).filter((one) => marks(one) === late)) {
        if (!item.name || !LEGEND[item.kind] || found.has(item.name)) continue;
        if (choice === null || !item.choices?.length || item.choices.includes(choice)) found.set(item.name, item);
      }
    }
    return found;
  }

  function swatch(item, where) {
    const node = (name, given) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
      return made;
    };
    const svg = node("svg", { width: 26, height: 12, "aria-hidden": "true" });
    const context = new svgContext.SvgContext();
    sample(context, item, where, 0, 6);
    for (const part of new DOMParser().parseFromString(`<svg xmlns="http://www.w3.org/2000/svg">${context.parts.join("")}</svg>`,
      "image/svg+xml").documentElement.children) svg.append(document.importNode(part, true));
    return svg;
  }

  /** Draws a sample of a series, 26 px wide, around `y`. */
  function sample(ctx, item, where, x, y) {
    const colour = themed(item.colour, where);
    ctx.fillStyle = item.kind === "band" ? drawing.pale(colour, item.opacity) : colour;
    ctx.strokeStyle = colour;
    if (["band", "spans", "bars", "boxes"].includes(item.kind)) {
      ctx.beginPath();
      ctx.rect(x, y - 5, 26, 10);
      ctx.fill();
      return;
    }
    if (item.kind !== "marks" && item.width > 0) {
      ctx.lineWidth = Math.max(item.width, 1.6);
      ctx.setLineDash(drawing.DASHES[item.dash]);
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(x + 26, y);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    const name = item.kind === "marks" ? item.symbol : item.marker;
    if (name) drawing.symbol(ctx, name, x + 13, y, 4);
  }

  /** The scale of a heat map. */
  function scale(item, { unit, title }) {
    const box = Object.assign(document.createElement("div"), { className: "heat-scale" });
    const bar = document.createElement("i");
    bar.style.background = `linear-gradient(90deg, ${item.colours.join(", ")})`;
    box.append(`${title ? `${title}: ` : ""}${shortened(item.low, 3)}`, bar, `${shortened(item.high, 3)}${unit ? ` ${unit}` : ""}`);
    return box;
  }

  function legend(element, chart) {
    const box = element.parentNode.querySelector(".legend");
    const found = named(chart);
    const maps = chart.panels.flatMap((panel) => panel.items.filter((item) => item.kind === "heat").map((item) => scale(item, panel)));
    if (maps.length) {
      box.replaceChildren(...maps);
      return;
    }
    box.replaceChildren(...(found.size < 2 ? [] : [...found]).map(([name, item]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = name;
      button.dataset.group = name;
      button.setAttribute("aria-pressed", String(!hidden.has(item.toggle)));
      button.append(swatch(item, theme()), Object.assign(document.createElement("span"), { textContent: name }));
      return button;
    }));
  }

  /** Draws all again, as after something was hidden. */
  function again() {
    for (const [element, { chart, plots, zoomed }] of drawn) {
      for (const u of plots) {
        const [bottom, top] = u.knee.fit(zoomed && !u.knee.panel.x ? zoomed : [u.knee.axis.low, u.knee.axis.high]);
        u.setScale("y", { min: bottom, max: top });
        u.redraw(false);
      }
      legend(element, chart);
    }
  }

  // A chart as a file.

  /** Draws a chart beside the page, in light colours, and gives its size and what was drawn of each panel. */
  async function copied(chart, width, target) {
    const rows = layout(chart, width, 0).rows;
    const size = layout(chart, width, rows === 1 ? 340 : rows * 210 + 40);
    const zoomed = (chart.x?.time && [...drawn.values()].find((state) => state.chart === chart)?.zoomed) || null;
    const plots = chart.panels.map((_, i) => plot(chart, i, height(chart, i, size), target, "light", zoomed, false));
    await new Promise((done) => { setTimeout(done, 0); });
    return { plots, size };
  }

  /** Draws title, legend and panels on a context made for a size. */
  async function composed(chart, width, make, record) {
    const { plots, size } = await (record ? svgContext.recorded(() => copied(chart, width, document.createElement("div"))) : copied(chart, width, document.createElement("div")));
    const entries = [...named(chart)].filter(([, item]) => !hidden.has(item.toggle));
    const shown = entries.length < 2 ? [] : entries;
    let [x, y] = [10, 38];
    const spots = shown.map(([name]) => {
      const wide = 26 + 8 + name.length * 6.8 + 18;
      if (x + wide > width && x > 10) [x, y] = [10, y + 18];
      const spot = [x, y];
      x += wide;
      return spot;
    });
    const top = shown.length ? y + 14 : 30;
    const at = [];
    let below = top;
    for (let row = 0; row < size.rows; row += 1) {
      const line = plots.slice(row * size.columns, (row + 1) * size.columns);
      line.forEach((u, column) => at.push([u, column * size.width, below]));
      below += Math.max(...line.map((u) => u.height));
    }
    const [ctx, done] = make(width, below + 6);
    ctx.fillStyle = "#FFFFFF";
    ctx.fillRect(0, 0, width, below + 6);
    ctx.textBaseline = "middle";
    ctx.textAlign = "start";
    ctx.fillStyle = themed("ink", "light");
    ctx.font = `600 14px ${FONT}`;
    ctx.fillText(chart.title ?? "", 10, 16);
    ctx.font = `12px ${FONT}`;
    shown.forEach(([name, item], i) => {
      const [left, middle] = spots[i];
      sample(ctx, item, "light", left, middle);
      ctx.fillStyle = themed("ink", "light");
      ctx.fillText(name, left + 34, middle);
    });
    const file = await done(at);
    plots.forEach((u) => u.destroy());
    return file;
  }

  const WIDTH = 900;
  const SHARP = 2;

  const svg = (chart, width = WIDTH) => composed(chart, width, (w, h) => {
    const ctx = new svgContext.SvgContext();
    return [ctx, (at) => {
      const scale = 1 / uPlot.pxRatio;
      const panels = at.map(([u, x, y]) => `<g transform="translate(${x} ${y}) scale(${scale})">${u.ctx.parts.join("")}</g>`);
      return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" `
        + `font-family="${svgContext.escape(FONT)}">${ctx.parts.join("")}${panels.join("")}</svg>`;
    }];
  }, true);

  async function png(chart) {
    const text = await svg(chart);
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width * SHARP, height: image.height * SHARP });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => { canvas.toBlob(done, "image/png"); });
  }

  /** The points of the shown series: a row each. A text that a spreadsheet would compute is kept from that. */
  function csv(chart) {
    const cell = (value) => {
      if (value === undefined || value === null || Number.isNaN(value)) return "";
      if (typeof value === "number") return String(Number(value.toPrecision(7)));
      const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
      return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    const rows = [["panel", "series", "x", "value", "low", "high"]];
    for (const panel of chart.panels) {
      const axis = xOf(chart, panel);
      const name = panel.title ? `${panel.title}: ${panel.label}` : panel.label;
      const at = (x) => (axis.names ? axis.names[Math.round(x)] : x);
      for (const item of panel.items.filter(shows)) {
        if (item.kind === "heat") item.z.forEach((row, j) => row.forEach((z, i) => rows.push([name, panel.rows[j], at(i), z, null, null])));
        else if (item.kind === "spans") item.spans.forEach(([from, to]) => rows.push([name, item.name, null, null, from, to]));
        else if (item.kind === "boxes") item.five.forEach((five, i) => five.forEach((value, k) => rows.push([name, `${item.name || "box"}, ${["low", "25 %", "median", "75 %", "high"][k]}`, at(item.x[i]), value, null, null])));
        else for (let i = 0; i < item.x.length; i += 1) {
          const half = item.half?.[i];
          rows.push([name, item.name, at(item.x[i]), item.y?.[i], half > 0 ? item.y[i] - half : item.low?.[i], half > 0 ? item.y[i] + half : item.high?.[i]]);
        }
      }
    }
    return `${[["panel", "series", xTitle(chart), "value", "low", "high"], ...rows.slice(1)].map((row) => row.map(cell).join(",")).join("\n")}\n`;
  }

  const xTitle = (chart) => chart.x?.title || "x";

  const FORMATS = {
    PNG: async (chart) => png(chart),
    SVG: async (chart) => new Blob([await svg(chart)], { type: "image/svg+xml" }),
    CSV: async (chart) => new Blob([csv(chart)], { type: "text/csv" }),
  };

  async function save(element, format) {
    const { chart } = drawn.get(element);
    const link = document.createElement("a");
    const name = `${chart.key ?? element.id.replace("chart-", "")}`.replace(/[^A-Za-z0-9_-]+/g, "-");
    link.download = `${name || "chart"}.${format.toLowerCase()}`;
    link.href = URL.createObjectURL(await FORMATS[format](chart));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  // Lazily.

  const waiting = new Map();
  for (const source of document.querySelectorAll("script[data-for]")) {
    waiting.set(document.getElementById(source.dataset.for), source);
  }
  const near = new IntersectionObserver((seen) => {
    for (const { target } of seen.filter((one) => one.isIntersecting)) arrive(target);
  }, { rootMargin: "600px" });
  const watch = new ResizeObserver((seen) => {
    for (const { target } of seen) {
      const state = drawn.get(target);
      if (state && target.clientWidth && Math.abs(target.clientWidth - state.width) > 1) render(target, state.chart);
    }
  });

  function arrive(element) {
    near.unobserve(element);
    const source = waiting.get(element);
    waiting.delete(element);
    return source && show(element, JSON.parse(source.textContent));
  }

  const choose = document.getElementById("choice");
  if (choose) {
    choice = choose.value;
    choose.addEventListener("change", () => {
      choice = choose.value;
      again();
    });
  }
  waiting.forEach((_, element) => near.observe(element));
  system.addEventListener("change", () => drawn.forEach(({ chart }, element) => render(element, chart)));

  document.addEventListener("click", (event) => {
    const format = event.target.closest(".save button")?.dataset.format;
    if (format) track(save(event.target.closest(".card").querySelector(".chart"), format));
    const name = event.target.closest(".legend button")?.dataset.group;
    if (name === undefined) return;
    const own = event.target.closest(".card");
    const toggle = toggleOf(own, name);
    if (!hidden.delete(toggle)) hidden.add(toggle);
    again();
    for (const button of own.querySelectorAll(".legend button")) {
      if (button.dataset.group === name) button.focus({ preventScroll: true });
    }
  });

  /** Draws what has not been come near to, and waits for all; what is folded away has no size yet. */
  const all = () => {
    [...waiting.keys()].filter((chart) => chart.checkVisibility()).forEach(arrive);
    return Promise.all(busy);
  };
  addEventListener("beforeprint", all);

  /** What a chart shows: the names of its series that are drawn, by panel. */
  const shown = (element) => drawn.get(element)?.chart.panels.map(({ items }) => items.filter(shows).map(({ name }) => name ?? ""));
  const of = (element) => drawn.get(element);
  return { all, show, svg, png, csv, shown, of, zoom };
})();
globalThis.drawAllCharts = charts.all;
