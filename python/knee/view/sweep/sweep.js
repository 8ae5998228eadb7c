"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
// Plotly takes some tags for markup and what is between dollars for TeX, and reads entities.
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("$", "&#36;");
const NONE = -1;
const MOST_PANELS = 12;

const option = (text, value) => Object.assign(document.createElement("option"), { textContent: text, value });
const named = ({ title, unit }) => (unit ? `${title}, ${unit}` : title);
const figures = data.figures.map((figure, i) => [named(figure), i]);
const axes = data.axes.map(({ key }, i) => [key, i]);
at("figure").append(...figures.map((each) => option(...each)));
at("other").append(...figures.map((each) => option(...each)));
at("over").append(...axes.map((each) => option(...each)));
for (const id of ["by", "panels"]) at(id).append(option("nothing", NONE), ...axes.map((each) => option(...each)));
// At first: the first axis across, the second as lines, the third as panels; all others stand at their first value.
const free = data.axes.flatMap(({ group, values }, i) => (
  group >= 0 && values.length > 1 && data.axes.findIndex((other) => other.group === group) === i ? [i] : []));
at("over").value = String(free[0] ?? 0);
at("by").value = String(free[1] ?? NONE);
at("panels").value = String(free.slice(2).find((i) => data.axes[i].values.length <= MOST_PANELS) ?? NONE);
const delay = data.figures.findIndex(({ name }) => name === "queue_delay_mean_ms");
const use = data.figures.findIndex(({ name }) => name === "utilization");
at("other").value = String(Math.max(delay, 0));
const fixed = data.axes.map(() => 0);

const numbers = (axis) => axis.numbers ?? [];
const logarithmic = (axis) => numbers(axis).length > 2 && Math.min(...numbers(axis)) > 0
  && Math.max(...numbers(axis)) / Math.min(...numbers(axis)) >= 10;
const place = (axis, i) => (axis.numbers ? axis.numbers[i] : plain(axis.values[i]));

/** What is chosen, as numbers; an axis is used once. */
function chosen() {
  const kind = at("kind").value;
  const over = Number(at("over").value);
  let by = Number(at("by").value);
  if (kind !== "pareto" && by === over) by = NONE;
  let panels = Number(at("panels").value);
  if (panels === by || (kind !== "pareto" && panels === over)) panels = NONE;
  return { kind, figure: Number(at("figure").value), other: Number(at("other").value), over, by, panels };
}

/**
 * The axes that are neither across nor lines nor panels, and do not follow from those: tied and derived ones do. In a
 * Pareto plot all their values are points.
 */
function rest({ kind, over, by, panels }) {
  const used = new Set([over, by, panels].filter((i) => i !== NONE && data.axes.length).map((i) => data.axes[i].group));
  return data.axes.flatMap(({ group, values }, i) => {
    if (kind === "pareto" || group < 0 || used.has(group) || values.length < 2) return [];
    used.add(group);
    return [i];
  });
}

function controls(choice) {
  at("against").hidden = choice.kind !== "pareto";
  at("over").parentNode.hidden = choice.kind === "pareto" || data.axes.length === 0;
  at("by").parentNode.firstChild.textContent = { lines: "lines by ", heat: "and ", pareto: "colours by " }[choice.kind];
  at("fixed").replaceChildren(...rest(choice).map((i) => {
    const select = document.createElement("select");
    select.append(...data.axes[i].values.map((value, k) => option(value, k)));
    select.value = String(fixed[i]);
    select.addEventListener("change", () => { fixed[i] = Number(select.value); draw(); });
    const label = document.createElement("label");
    label.append(`${data.axes[i].key} `, select);
    return label;
  }));
}

/** The rows that are shown, by panel and by line. */
function shown(choice) {
  const held = rest(choice);
  const rows = data.runs.flatMap((_, row) => (held.every((i) => data.points[i][row] === fixed[i]) ? [row] : []));
  const group = (list, axis) => {
    const made = new Map();
    for (const row of list) {
      const key = axis === NONE ? 0 : data.points[axis][row];
      if (!made.has(key)) made.set(key, []);
      made.get(key).push(row);
    }
    return [...made].sort(([a], [b]) => a - b);
  };
  return group(rows, choice.panels).slice(0, MOST_PANELS).map(([key, list]) => [key, group(list, choice.by)]);
}

/** From where to where (exclusive) the values of a list are above zero. */
function stretches(values) {
  const made = [];
  values.forEach((value, i) => {
    if (!(value > 0)) return;
    if (i > 0 && values[i - 1] > 0) made.at(-1)[1] = i + 1;
    else made.push([i, i + 1]);
  });
  return made;
}

function lines(choice, groups, panel) {
  const axis = data.axes[choice.over];
  const { name } = data.figures[choice.figure];
  return groups.flatMap(([key, rows]) => {
    const kept = rows.filter((row) => data.means[name][row] !== null);
    if (axis?.numbers) kept.sort((a, b) => data.points[choice.over][a] - data.points[choice.over][b]);
    const x = kept.map((row) => (axis ? place(axis, data.points[choice.over][row]) : 0));
    const y = kept.map((row) => data.means[name][row]);
    const half = kept.map((row) => data.halves[name][row] ?? 0);
    const label = choice.by === NONE ? "" : data.axes[choice.by].values[key];
    const { colour, dash, marker } = data.styles[key % data.styles.length];
    const where = { xaxis: `x${panel || ""}`, yaxis: `y${panel || ""}`, legendgroup: label };
    const main = {
      ...where, type: "scatter", mode: axis?.scattered ? "markers" : "lines+markers", name: plain(label), x, y, customdata: kept,
      line: { color: colour, width: 1.8, dash }, marker: { color: colour, symbol: marker, size: 7 },
      hovertemplate: "%{y:.4~g}",
    };
    if (axis?.scattered) return [main];
    // Only where seeds differ: equal figures say nothing about how far others would be apart.
    const bands = stretches(half).map(([from, to]) => {
      const at = x.slice(from, to);
      const [high, low] = [1, -1].map((sign) => y.slice(from, to).map((v, i) => v + sign * half[from + i]));
      return {
        ...where, type: "scatter", mode: "lines", x: [...at, ...at.toReversed()], hoverinfo: "skip", showlegend: false,
        y: [...high, ...low.toReversed()], fill: "toself", fillcolor: `${colour}2E`,
        line: { color: `${colour}2E`, width: to - from > 1 ? 0 : 4 }, meta: { band: true },
      };
    });
    return [main, ...bands];
  });
}

function heat(choice, groups, panel, range) {
  const [across, up] = [data.axes[choice.over], data.axes[choice.by]];
  const { name, unit } = data.figures[choice.figure];
  const z = (up?.values ?? [""]).map(() => across.values.map(() => null));
  const rows = z.map((line) => line.map(() => null));
  for (const [key, list] of groups) {
    for (const row of list) {
      z[up ? key : 0][data.points[choice.over][row]] = data.means[name][row];
      rows[up ? key : 0][data.points[choice.over][row]] = row;
    }
  }
  return [{
    type: "heatmap", x: across.values.map(plain), y: (up?.values ?? [""]).map(plain), z, customdata: rows,
    xaxis: `x${panel || ""}`, yaxis: `y${panel || ""}`, zmin: range[0], zmax: range[1], colorscale: "Viridis",
    showscale: panel === 0, colorbar: { title: { text: unit, side: "right" }, thickness: 12 }, xgap: 1, ygap: 1,
    hovertemplate: `%{x}, %{y}: %{z:.4~g} ${plain(unit)}<extra></extra>`,
  }];
}

/** Whether a point is beaten by none: less of what should be little, more of what should be much. */
function front(rows, x, y) {
  const sign = (figure) => (figure.less ? 1 : -1);
  const of = (row, figure) => sign(figure) * data.means[figure.name][row];
  const sorted = rows.filter((row) => data.means[x.name][row] !== null && data.means[y.name][row] !== null)
    .sort((a, b) => of(a, x) - of(b, x) || of(a, y) - of(b, y));
  let best = Infinity;
  return sorted.filter((row) => {
    const better = of(row, y) < best;
    best = Math.min(best, of(row, y));
    return better;
  });
}

function pareto(choice, groups, panel) {
  const [y, x] = [data.figures[choice.figure], data.figures[choice.other]];
  const where = { xaxis: `x${panel || ""}`, yaxis: `y${panel || ""}` };
  const of = (rows) => ({ x: rows.map((row) => data.means[x.name][row]), y: rows.map((row) => data.means[y.name][row]) });
  const points = groups.map(([key, rows]) => {
    const label = choice.by === NONE ? "" : data.axes[choice.by].values[key];
    const { colour, marker } = data.styles[key % data.styles.length];
    return {
      ...where, ...of(rows), type: "scatter", mode: "markers", name: plain(label), legendgroup: label, customdata: rows,
      marker: { color: colour, symbol: marker, size: 7, opacity: 0.75 }, line: { color: colour, width: 1.6, dash: "solid" },
      hovertemplate: "%{x:.4~g}, %{y:.4~g}",
    };
  });
  const edge = front(groups.flatMap(([, rows]) => rows), x, y);
  return [...points, {
    ...where, ...of(edge), type: "scatter", mode: "lines", name: "Pareto front", legendgroup: "Pareto front",
    line: { color: data.ink, width: 1.4, dash: "dot", shape: "hv" }, hoverinfo: "skip",
  }];
}

const titled = (axis) => (axis ? plain(axis.key) + (axis.unit ? ` (${axis.unit})` : "") : "");

/** The domains of the axes of `count` panels, side by side in rows. */
function grid(count) {
  const columns = count === 1 ? 1 : innerWidth < 700 ? 1 : Math.min(count <= 4 ? 2 : 3, count);
  const rows = Math.ceil(count / columns);
  const [gap, lift] = [0.07, rows > 1 ? 0.42 / rows / 2 : 0];
  return Array.from({ length: count }, (_, i) => {
    const [column, row] = [i % columns, Math.floor(i / columns)];
    const [width, height] = [(1 - gap * (columns - 1)) / columns, (1 - lift * (rows - 1)) / rows];
    const [left, top] = [column * (width + gap), 1 - row * (height + lift)];
    return { x: [left, Math.min(left + width, 1)], y: [Math.max(top - height, 0), top], column, last: i + columns >= count, rows };
  });
}

function draw() {
  const choice = chosen();
  controls(choice);
  const panels = shown(choice);
  const figure = data.figures[choice.figure];
  const axis = data.axes[choice.over];
  const all = panels.flatMap(([, groups]) => groups.flatMap(([, rows]) => rows)).map((row) => data.means[figure.name][row])
    .filter((value) => value !== null);
  const range = [Math.min(...all), Math.max(...all)];
  const traces = panels.flatMap(([, groups], i) => {
    const panel = i === 0 ? 0 : i + 1;
    return { lines, heat, pareto }[choice.kind](choice, groups, panel, range);
  });
  const boxes = grid(Math.max(panels.length, 1));
  const common = { gridcolor: data.grid, linecolor: data.muted, zeroline: false };
  const text = { family: "system-ui, sans-serif", size: 13, color: data.ink };
  const layout = {
    font: text, template: {}, hovermode: "closest", showlegend: false, plot_bgcolor: "white", paper_bgcolor: "white",
    margin: { b: 48, ...(panels.length > 1 ? { t: 24 } : {}) }, annotations: [],
  };
  boxes.forEach((box, i) => {
    const panel = i === 0 ? "" : i + 1;
    const [xTitle, yTitle] = choice.kind === "pareto"
      ? [plain(named(data.figures[choice.other])), named(figure)]
      : [titled(axis), choice.kind === "heat" ? titled(data.axes[choice.by]) : named(figure)];
    const type = choice.kind === "lines" ? (axis?.numbers ? (logarithmic(axis) ? "log" : "linear") : "category")
      : choice.kind === "heat" ? "category" : "linear";
    layout[`xaxis${panel}`] = { ...common, domain: box.x, anchor: `y${panel}`, type,
      title: { text: box.last ? xTitle : "", font: { size: 12 } },
      ...(choice.kind === "lines" && axis?.numbers && numbers(axis).length <= 12
        ? { tickvals: numbers(axis), ticktext: numbers(axis).map((x) => String(Number(x.toPrecision(4)))) } : {}) };
    layout[`yaxis${panel}`] = { ...common, domain: box.y, anchor: `x${panel}`,
      type: choice.kind === "heat" ? "category" : "linear",
      title: { text: box.column === 0 ? yTitle : "", font: { size: 12 } },
      ...(choice.kind === "lines" ? { rangemode: "tozero", ...(panels.length > 1 && i > 0 ? { matches: "y" } : {}) } : {}) };
    if (panels.length > 1) {
      layout.annotations.push({ text: plain(`${data.axes[choice.panels].key}: ${data.axes[choice.panels].values[panels[i][0]]}`),
        x: (box.x[0] + box.x[1]) / 2, y: box.y[1], xref: "paper", yref: "paper", yanchor: "bottom", showarrow: false,
        font: { size: 12 } });
    }
  });
  const chart = at("chart");
  chart.style.height = boxes[0].rows > 1 ? `${Math.max(260 * boxes[0].rows, 380)}px` : "";
  charts.draw(chart, { data: traces, layout }).then(() => {
    chart.removeAllListeners("plotly_click");
    chart.on("plotly_click", ({ points }) => choose(points[0]));
  });
  const over = panels.length === MOST_PANELS ? ` At most ${MOST_PANELS} panels are drawn.` : "";
  const several = data.seeds.some((count) => count > 1);
  const bands = data.same ? `; ${data.same}` : choice.kind === "lines" ? " with the 95 % confidence intervals of the means" : "";
  at("about").textContent = (choice.by === NONE || choice.kind === "heat" ? "" : `${choice.kind === "lines" ? "Lines" : "Colours"} `
    + `by ${data.axes[choice.by].key}. `) + (several ? `Means over the seeds${bands}. ` : "")
    + `A click on a point names its run.${over}`;
}

/** Says which run a point is, and how to make it again with its report. */
function choose(point) {
  const row = point.customdata;
  if (row === null || row === undefined) return;
  const run = data.runs[row];
  const told = data.axes.map(({ key, values }, i) => `${key} = ${values[data.points[i][row]]}`).join(", ");
  const value = data.figures.filter(({ name }) => [at("figure"), at("other")].some((select) => (
    data.figures[Number(select.value)].name === name))).map((each) => `${named(each)}: ${data.means[each.name][row] ?? "none"}`);
  const code = Object.assign(document.createElement("code"), { textContent: `knee run --from ${data.folder} ${run}` });
  const parts = [`Run ${run}: ${told}. ${value.join("; ")}. With its report: `, code];
  if (data.saved) {
    parts.push("; ", Object.assign(document.createElement("a"), { href: `runs/${run}/summary.json`, textContent: "its figures" }));
  }
  at("chosen").replaceChildren(...parts);
}

// Delay against use, the most asked question of two figures.
at("kind").addEventListener("change", () => {
  if (at("kind").value === "pareto" && at("figure").value === at("other").value) at("figure").value = String(Math.max(use, 0));
  draw();
});
for (const id of ["figure", "other", "over", "by", "panels"]) at(id).addEventListener("change", draw);
if (data.figures.length) draw();
