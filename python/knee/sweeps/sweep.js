"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const [figure, over, about] = ["figure", "over", "about"].map((id) => document.getElementById(id));
// Plotly takes some tags for markup and what is between dollars for TeX, and reads entities.
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("$", "&#36;");

const option = (text, value) => Object.assign(document.createElement("option"), { textContent: text, value });
figure.append(...data.figures.map(({ title, unit }, i) => option(unit ? `${title}, ${unit}` : title, i)));
over.append(...data.axes.map(({ key }, i) => option(key, i)));

// A line for each combination of the other axes; seeds become a mean with the range beside it.
function lines(at, name) {
  const groups = new Map();
  data.points.forEach((point, row) => {
    const value = data.values[name][row];
    if (value === null) return;
    const others = point.filter((_, i) => i !== at).join(", ");
    if (!groups.has(others)) groups.set(others, new Map());
    const line = groups.get(others);
    if (!line.has(point[at])) line.set(point[at], []);
    line.get(point[at]).push(value);
  });
  return groups;
}

function draw() {
  const at = Number(over.value);
  const axis = data.axes[at];
  const { name, title, unit } = data.figures[Number(figure.value)];
  const place = (value) => (axis.numbers ? axis.numbers[axis.values.indexOf(value)] : plain(value));
  let spread = false;
  const traces = [...lines(at, name)].map(([label, line], i) => {
    const points = axis.values.filter((value) => line.has(value)).map((value) => [place(value), line.get(value)]);
    if (axis.numbers) points.sort((a, b) => a[0] - b[0]);
    const means = points.map(([, values]) => values.reduce((a, b) => a + b, 0) / values.length);
    spread ||= points.some(([, values]) => values.length > 1);
    const ends = (pick, sign) => points.map(([, values], k) => sign * (pick(...values) - means[k]));
    const { colour, dash, marker } = data.styles[i % data.styles.length];
    return {
      type: "scatter", mode: "lines+markers", name: plain(label), legendgroup: label, x: points.map(([x]) => x), y: means,
      line: { color: colour, width: 1.8, dash }, marker: { color: colour, symbol: marker, size: 7 },
      error_y: { type: "data", symmetric: false, array: ends(Math.max, 1), arrayminus: ends(Math.min, -1),
        visible: points.some(([, values]) => values.length > 1), thickness: 1, width: 3 },
      hovertemplate: "%{y:.4~g}",
    };
  });
  const numbers = axis.numbers ?? [];
  const log = numbers.length > 2 && Math.min(...numbers) > 0 && Math.max(...numbers) / Math.min(...numbers) >= 10;
  const text = { family: "system-ui, sans-serif", size: 13, color: data.ink };
  const common = { gridcolor: data.grid, linecolor: data.muted, zeroline: false };
  charts.draw(document.getElementById("chart"), { data: traces, layout: {
    font: text, template: {}, hovermode: "closest", showlegend: false,
    margin: { b: 48 }, plot_bgcolor: "white", paper_bgcolor: "white",
    xaxis: { ...common, title: { text: plain(axis.key) + (axis.unit ? ` (${axis.unit})` : ""), font: { size: 12 } },
      type: axis.numbers ? (log ? "log" : "linear") : "category",
      ...(axis.numbers ? { tickvals: numbers.length <= 12 ? numbers : undefined } : {}) },
    yaxis: { ...common, title: { text: title + (unit ? ` (${unit})` : ""), font: { size: 12 } }, rangemode: "tozero" },
  } });
  const others = data.axes.filter((_, i) => i !== at).map(({ key }) => key).join(", ");
  about.textContent = (others ? `Lines by ${others}. ` : "") + (spread ? "Means over the seeds, with their range." : "");
}

figure.addEventListener("change", draw);
over.addEventListener("change", draw);
draw();
