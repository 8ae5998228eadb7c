"use strict";
const touch = matchMedia("(pointer: coarse)").matches;
const charts = [];
let following = false;

// A zoom of one figure's time axis is a zoom of all.
function follow(source, change) {
  if (following) return;
  const wanted = {};
  for (const key of Object.keys(change)) if (key.startsWith("xaxis.")) wanted[key] = change[key];
  if (Object.keys(wanted).length === 0) return;
  following = true;
  const others = charts.filter((chart) => chart !== source);
  Promise.all(others.map((chart) => Plotly.relayout(chart, wanted))).finally(() => { following = false; });
}

function toggle(group) {
  let hide = false;
  for (const button of document.querySelectorAll(".legend button")) {
    if (button.dataset.group === group) hide = button.classList.toggle("off");
  }
  for (const chart of charts) {
    const own = chart.data.flatMap((trace, index) => (trace.legendgroup === group ? [index] : []));
    if (own.length) Plotly.restyle(chart, { visible: !hide }, own);
  }
}

for (const source of document.querySelectorAll("script[data-for]")) {
  const chart = document.getElementById(source.dataset.for);
  const { data, layout } = JSON.parse(source.textContent);
  // A finger on a figure scrolls the page.
  layout.dragmode = touch ? false : "zoom";
  if (innerWidth < 600) {
    Object.assign(layout.margin, { l: 50, r: 6 });
    layout.font.size = 11;
  }
  Plotly.newPlot(chart, data, layout, { responsive: true, displayModeBar: false });
  charts.push(chart);
  chart.on("plotly_relayout", (change) => follow(chart, change));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest(".legend button");
  if (button) toggle(button.dataset.group);
});
