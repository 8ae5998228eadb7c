"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
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
// At first: the first axis of the grid across, algorithms as lines, the next axis as panels; all others stand at their
// first value, and figures are over all samples.
const free = data.axes.flatMap(({ group, values }, i) => (
  group >= 0 && values.length > 1 && data.axes.findIndex((other) => other.group === group) === i ? [i] : []));
const algorithm = (i) => data.axes[i].key.endsWith(".cc") && !data.axes[i].sampled;
const algorithms = free.filter(algorithm);
const grid = free.filter((i) => !algorithm(i) && !data.axes[i].sampled);
const first = [...grid, ...free.filter((i) => data.axes[i].sampled), ...algorithms];
const groups = [...algorithms, ...grid].filter((i) => i !== first[0]);
at("over").value = String(first[0] ?? 0);
at("by").value = String(groups[0] ?? NONE);
at("panels").value = String(groups.slice(1).find((i) => data.axes[i].values.length <= MOST_PANELS) ?? NONE);
const delay = data.figures.findIndex(({ name }) => name === "queue_delay_mean_ms");
const use = data.figures.findIndex(({ name }) => name === "utilization");
// A sweep with probes asks for latency under load; else for the queue's delay.
const probed = data.figures.findIndex(({ name }) => name === "latency_increase_p99_ms");
at("figure").value = String(Math.max(probed < 0 ? delay : probed, 0));
at("other").value = String(Math.max(delay, 0));
const ALL = -1;
const fixed = data.axes.map(({ sampled }) => (sampled ? ALL : 0));

/**
 * The values that an axis and those tied to it have together, in order, and the number of each point's: tied axes are
 * held at one of them.
 */
const together = data.axes.map(({ group }, i) => {
  const own = data.axes.flatMap((other, k) => (k === i || (group >= 0 && other.group === group) ? [k] : []));
  const of = data.runs.map((_, row) => own.map((k) => data.points[k][row]));
  const order = [...new Map(of.map((each) => [String(each), each])).values()].sort((a, b) => {
    const k = a.findIndex((one, j) => one !== b[j]);
    return k < 0 ? 0 : a[k] - b[k];
  });
  const places = new Map(order.map((each, k) => [String(each), k]));
  return {
    key: own.map((k) => data.axes[k].key).join(" with "),
    names: order.map((each) => each.map((value, j) => data.axes[own[j]].values[value]).join(", ")),
    at: of.map((each) => places.get(String(each))),
  };
});

const numbers = (axis) => axis.numbers ?? [];
const logarithmic = (axis) => numbers(axis).length > 2 && Math.min(...numbers(axis)) > 0
  && Math.max(...numbers(axis)) / Math.min(...numbers(axis)) >= 10;
const place = (axis, i) => (axis.numbers ? axis.numbers[i] : i);

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
  return data.axes.flatMap(({ group }, i) => {
    if (kind === "pareto" || group < 0 || used.has(group) || together[i].names.length < 2) return [];
    used.add(group);
    return [i];
  });
}

function controls(choice) {
  at("against").hidden = choice.kind !== "pareto";
  at("over").parentNode.hidden = choice.kind === "pareto" || data.axes.length === 0;
  at("by").parentNode.firstChild.textContent = { lines: "lines by ", bars: "beside each other ", heat: "and ", pareto: "colours by " }[choice.kind];
  at("fixed").replaceChildren(...rest(choice).map((i) => {
    const select = document.createElement("select");
    const { key, names } = together[i];
    if (data.axes[i].sampled) select.append(option(`all ${names.length} samples`, ALL));
    select.append(...names.map((name, k) => option(name, k)));
    select.value = String(fixed[i]);
    select.addEventListener("change", () => { fixed[i] = Number(select.value); draw(); });
    const label = document.createElement("label");
    label.append(`${key} `, select);
    return label;
  }));
}

/** The rows that are shown, by panel and by line. */
function shown(choice) {
  const held = rest(choice);
  const rows = data.runs.flatMap((_, row) => (held.every((i) => fixed[i] === ALL || together[i].at[row] === fixed[i]) ? [row] : []));
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

const style = (key) => data.styles[key % data.styles.length];
const nameOf = (choice, key) => (choice.by === NONE ? "" : data.axes[choice.by].values[key]);

/**
 * What is drawn of a group: at each value of the axis across the mean over its points, which samples differ in. An
 * interval is that of the mean over the points, each of which counts once. A mean over several points is no run's.
 */
function means(choice, rows) {
  const { name } = data.figures[choice.figure];
  const made = new Map();
  for (const row of rows) {
    if (data.means[name][row] === null) continue;
    const at = choice.over === NONE || !data.axes.length ? 0 : data.points[choice.over][row];
    if (!made.has(at)) made.set(at, []);
    made.get(at).push(row);
  }
  return [...made].map(([at, own]) => {
    if (own.length === 1) return { at, row: own[0], mean: data.means[name][own[0]], half: data.halves[name][own[0]] ?? 0 };
    const values = own.map((row) => data.means[name][row]);
    const mean = values.reduce((sum, value) => sum + value, 0) / own.length;
    const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (own.length - 1);
    const t = data.t[Math.min(own.length - 2, data.t.length - 1)];
    return { at, row: null, mean, half: t * Math.sqrt(square / own.length) };
  });
}

/** The sampled keys that a figure is over. */
const pooled = (choice) => (choice.kind === "pareto" ? [] : rest(choice).filter((i) => fixed[i] === ALL)
  .flatMap((i) => data.axes.filter(({ group }) => group === data.axes[i].group).map(({ key }) => key)));

/** Lines with the confidence intervals of their means; only markers over an axis without an order. */
function lines(choice, groups) {
  const axis = data.axes[choice.over];
  return groups.flatMap(([key, list]) => {
    const points = means(choice, list);
    if (axis?.numbers) points.sort((a, b) => a.at - b.at);
    const { colour, dash, marker } = style(key);
    const x = points.map(({ at }) => (axis ? place(axis, at) : 0));
    const y = points.map(({ mean }) => mean);
    const rows = points.map(({ row }) => row);
    // Only where seeds differ: equal figures say nothing about how far others would be apart.
    const half = points.map((point) => point.half);
    const joined = axis?.numbers && !axis.scattered;
    const main = { kind: "line", name: nameOf(choice, key), x, y, half, rows, colour, dash, marker, width: joined ? 1.8 : 0 };
    if (!joined || !half.some((each) => each > 0)) return [main];
    const edge = (sign) => y.map((value, i) => (half[i] > 0 ? value + sign * half[i] : NaN));
    return [{ kind: "band", x, low: edge(-1), high: edge(1), colour, opacity: 0.18 }, main];
  });
}

/** Bars side by side at each value of an axis. */
function bars(choice, groups) {
  const width = 0.8 / Math.max(groups.length, 1);
  return groups.map(([key, list], k) => {
    const points = means(choice, list);
    return {
      kind: "bars", name: nameOf(choice, key), width: 0.94 * width, colour: style(key).colour, rows: points.map(({ row }) => row),
      x: points.map(({ at }) => at + (k + 0.5) * width - 0.4), y: points.map(({ mean }) => mean), half: points.map(({ half }) => half),
    };
  });
}

function heat(choice, groups, range) {
  const [across, up] = [data.axes[choice.over], data.axes[choice.by]];
  const z = (up?.values ?? [""]).map(() => across.values.map(() => null));
  const rows = z.flatMap((line) => line.map(() => null));
  for (const [key, list] of groups) {
    for (const { at, row, mean } of means(choice, list)) {
      const j = up ? key : 0;
      z[j][at] = mean;
      rows[j * across.values.length + at] = row;
    }
  }
  return [{ kind: "heat", z, rows, low: range[0], high: range[1], colours: data.heat }];
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

function pareto(choice, groups) {
  const [y, x] = [data.figures[choice.figure], data.figures[choice.other]];
  const of = (rows) => ({ x: rows.map((row) => data.means[x.name][row] ?? NaN), y: rows.map((row) => data.means[y.name][row] ?? NaN) });
  const points = groups.map(([key, rows]) => ({
    ...of(rows), kind: "marks", name: nameOf(choice, key), colour: style(key).colour, symbol: style(key).marker, size: 4,
    opacity: 0.8, rows, texts: rows.map((row) => `${nameOf(choice, key) && `${nameOf(choice, key)}: `}${spoken(y, row)}, ${spoken(x, row)}`),
  }));
  const edge = front(groups.flatMap(([, rows]) => rows), x, y);
  return [...points, { ...of(edge), kind: "line", name: "Pareto front", colour: "ink", width: 1.4, dash: "dot", step: true }];
}

const spoken = ({ name, title, unit }, row) => `${title} ${data.means[name][row] ?? "none"}${unit && ` ${unit}`}`;

const titled = (axis) => (axis ? axis.key + (axis.unit ? ` (${axis.unit})` : "") : "");

/** The horizontal axis of all panels. */
function across(choice, panels) {
  const axis = data.axes[choice.over];
  if (choice.kind === "pareto") {
    const figure = data.figures[choice.other];
    const values = panels.flatMap(([, groups]) => groups.flatMap(([, rows]) => rows)).map((row) => data.means[figure.name][row])
      .filter((value) => value !== null);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = 0.05 * (high - low || 1);
    return { title: named(figure), low: Math.min(low - room, low >= 0 ? 0 : Infinity), high: high + room, unit: figure.unit };
  }
  if (choice.kind !== "lines" || !axis?.numbers) {
    const values = axis?.values ?? [""];
    return { title: titled(axis), low: -0.5, high: values.length - 0.5, names: values };
  }
  const [low, high] = [Math.min(...numbers(axis)), Math.max(...numbers(axis))];
  const log = logarithmic(axis);
  const room = 0.04 * (high - low || Math.abs(high) || 1);
  return {
    title: titled(axis), log, low: log ? low / 1.15 : low - room, high: log ? high * 1.15 : high + room, unit: axis.unit,
    ticks: numbers(axis).length <= 12 ? numbers(axis) : null,
  };
}

function draw() {
  const choice = chosen();
  controls(choice);
  const panels = shown(choice);
  const figure = data.figures[choice.figure];
  const rows = panels.flatMap(([, groups]) => groups.flatMap(([, list]) => list));
  const known = panels.flatMap(([, groups]) => groups.flatMap(([, list]) => means(choice, list)));
  const all = choice.kind === "pareto" ? rows.map((row) => data.means[figure.name][row]).filter((value) => value !== null)
    : known.map(({ mean }) => mean);
  const top = Math.max(...known.map(({ mean, half }) => mean + half));
  const up = choice.kind === "heat" ? (data.axes[choice.by]?.values ?? [""]) : null;
  const fromZero = (choice.kind === "lines" || choice.kind === "bars") && Math.min(...all, 0) === 0;
  const chart = {
    key: `sweep-${choice.kind}-${figure.name}`, title: titleOf(choice), columns: panels.length === 1 ? 1 : panels.length <= 4 ? 2 : 3,
    tall: panels.length === 1 ? 440 : 270, x: across(choice, panels),
    panels: panels.map(([key, groups]) => ({
      label: choice.kind === "heat" ? titled(data.axes[choice.by]) : named(figure), unit: figure.unit,
      title: panels.length > 1 ? `${data.axes[choice.panels].key}: ${data.axes[choice.panels].values[key]}` : "",
      floor: fromZero ? 0 : null, ceiling: fromZero && panels.length > 1 ? 1.05 * (top || 1) : null, headroom: 0, note: null, rows: up, x: null,
      items: { lines, bars, heat, pareto }[choice.kind](choice, groups, [Math.min(...all), Math.max(...all)]),
    })),
  };
  if (up) chart.tall = Math.max(chart.tall, 60 + 24 * up.length);
  const element = at("chart");
  element.onpick = choose;
  charts.show(element, chart);
  const over = panels.length === MOST_PANELS ? ` At most ${MOST_PANELS} panels are drawn.` : "";
  const several = data.seeds.some((count) => count > 1);
  const intervals = choice.kind === "lines" || choice.kind === "bars" ? " with the 95 % confidence intervals of the means" : "";
  const bands = data.same ? `; ${data.same}` : intervals;
  const by = { lines: "Lines", bars: "Bars", pareto: "Colours" }[choice.kind];
  const samples = pooled(choice);
  const means_over = `Means over all samples of ${samples.join(", ")}${intervals}. `;
  at("about").textContent = (choice.by === NONE || !by ? "" : `${by} by ${data.axes[choice.by].key}. `)
    + (samples.length ? means_over : (several ? `Means over the seeds${bands}. ` : "") + `Click a point to see its run.`) + over;
}

const titleOf = ({ kind, figure, other }) => (kind === "pareto"
  ? `${data.figures[figure].title} and ${data.figures[other].title.replace(/^[A-Z](?=[a-z])/, (sign) => sign.toLowerCase())}`
  : data.figures[figure].title);

/** Says which run a point is, and how to make it again with its report. */
function choose(row) {
  if (row === null || row === undefined) return;
  const run = data.runs[row];
  const told = data.axes.map(({ key, values }, i) => `${key} = ${values[data.points[i][row]]}`).join(", ");
  const value = data.figures.filter(({ name }) => [at("figure"), at("other")].some((select) => (
    data.figures[Number(select.value)].name === name))).map((each) => `${named(each)}: ${data.means[each.name][row] ?? "none"}`);
  const code = Object.assign(document.createElement("code"), { textContent: `${data.again} ${run}` });
  const parts = [`Run ${run}: ${told}. ${value.join("; ")}. With its report: `, data.again ? code : "run the scenario itself, since the folder does not hold its class"];
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
