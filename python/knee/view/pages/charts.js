"use strict";
// Draws the charts of a page, each when it comes near the window. Their names stand above them as buttons that hide
// and show; a zoom of one time axis is a zoom of all.
const charts = (() => {
  const touch = matchMedia("(pointer: coarse)").matches;
  const drawn = new Set();
  const hidden = new Set();
  const busy = new Set();
  let choice = null;
  let following = false;

  const chosen = (trace) => choice === null || !trace.meta || trace.meta.includes(choice);
  const shows = (trace) => chosen(trace) && !hidden.has(trace.legendgroup);

  function follow(source, change) {
    if (following || !source.layout.meta?.time) return;
    const wanted = Object.fromEntries(Object.entries(change).filter(([key]) => key.startsWith("xaxis.")));
    if (Object.keys(wanted).length === 0) return;
    following = true;
    const others = [...drawn].filter((chart) => chart !== source && chart.layout.meta?.time);
    Promise.all(others.map((chart) => Plotly.relayout(chart, wanted))).finally(() => { following = false; });
  }

  const SHAPES = {
    circle: "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0", square: "M-3-3h6v6h-6z", diamond: "M0-4L4 0L0 4L-4 0z",
    "triangle-up": "M0-4L4 3H-4z", "triangle-down": "M0 4L4-3H-4z", cross: "M-1-4h2v3h3v2h-3v3h-2v-3h-3v-2h3z",
    x: "M-3-4l3 3l3-3l1 1l-3 3l3 3l-1 1l-3-3l-3 3l-1-1l3-3l-3-3z",
  };
  const DASHES = { dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };

  function swatch(trace) {
    const node = (name, given) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
      return made;
    };
    const svg = node("svg", { width: 26, height: 12, "aria-hidden": "true" });
    if (trace.fill === "toself") {
      svg.append(node("rect", { width: 26, height: 10, y: 1, fill: trace.fillcolor }));
      return svg;
    }
    if (trace.mode !== "markers" || trace.line) {
      const { color, width, dash } = trace.line;
      svg.append(node("path", {
        d: "M0 6H26", stroke: color, "stroke-width": Math.max(width, 1.6), "stroke-dasharray": DASHES[dash] ?? "none",
      }));
    }
    if (trace.mode.includes("markers")) {
      const { color, symbol } = trace.marker;
      svg.append(node("path", { d: SHAPES[symbol] ?? SHAPES.circle, fill: color, transform: "translate(13 6)" }));
    }
    return svg;
  }

  function legend(chart) {
    const box = chart.parentNode.querySelector(".legend");
    const named = new Map();
    for (const trace of chart.data) {
      if (trace.legendgroup && chosen(trace) && !named.has(trace.legendgroup)) named.set(trace.legendgroup, trace);
    }
    box.replaceChildren(...(named.size < 2 ? [] : [...named]).map(([name, trace]) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = name;
      button.dataset.group = name;
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      button.append(swatch(trace), Object.assign(document.createElement("span"), { textContent: name }));
      return button;
    }));
  }

  /** Keeps a promise until it is done. */
  function track(promise) {
    busy.add(promise);
    return promise.finally(() => busy.delete(promise));
  }

  function show(chart) {
    track(Plotly.restyle(chart, { visible: chart.data.map(shows) }, chart.data.map((_, i) => i)));
    legend(chart);
  }

  const draw = (chart, spec) => track(render(chart, spec));

  async function render(chart, { data, layout }) {
    // A finger on a chart scrolls the page.
    layout.dragmode = touch ? false : "zoom";
    layout.margin = { l: 62, r: 14, t: 10, b: 44, ...layout.margin };
    if (innerWidth < 600) {
      Object.assign(layout.margin, { l: 52, r: 8 });
      layout.font.size = 11;
    }
    const first = !drawn.has(chart);
    drawn.add(chart);
    const seen = data.map((trace) => ({ ...trace, visible: shows(trace) }));
    await Plotly.react(chart, seen, layout, { responsive: true, displayModeBar: false });
    if (first) chart.on("plotly_relayout", (change) => follow(chart, change));
    legend(chart);
  }

  const waiting = new Map();
  for (const source of document.querySelectorAll("script[data-for]")) {
    waiting.set(document.getElementById(source.dataset.for), source);
  }
  const near = new IntersectionObserver((seen) => {
    for (const { target } of seen.filter((one) => one.isIntersecting)) arrive(target);
  }, { rootMargin: "600px" });

  function arrive(chart) {
    near.unobserve(chart);
    const source = waiting.get(chart);
    waiting.delete(chart);
    return source && draw(chart, JSON.parse(source.textContent));
  }

  const choose = document.getElementById("choice");
  if (choose) {
    choice = choose.value;
    choose.addEventListener("change", () => {
      choice = choose.value;
      drawn.forEach(show);
    });
  }
  waiting.forEach((_, chart) => near.observe(chart));

  document.addEventListener("click", (event) => {
    const name = event.target.closest(".legend button")?.dataset.group;
    if (name === undefined) return;
    if (!hidden.delete(name)) hidden.add(name);
    drawn.forEach(show);
    for (const button of document.querySelectorAll(".legend button")) {
      if (button.dataset.group === name) button.focus({ preventScroll: true });
    }
  });

  /** Draws what has not been come near to, and waits for all; what is folded away has no size yet. */
  const all = () => {
    [...waiting.keys()].filter((chart) => chart.checkVisibility()).forEach(arrive);
    return Promise.all(busy);
  };
  addEventListener("beforeprint", all);
  return { all, draw };
})();
globalThis.drawAllCharts = charts.all;
