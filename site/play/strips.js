// Time series that scroll: lines of flows, limits, drops and marks, and the phases of algorithms.
import { indexAt, RECOVERY } from "./history.js";
import { colourOf, colours, sharp, SMALL } from "./looks.js";
import { roundUp } from "./numbers.js";

const LEFT = 44;
const RIGHT = 10;
const TOP = 8;
const BOTTOM = 20;
/** A line goes on over intervals without a figure up to this long, s. */
const GAP = 0.5;

/** Where a time lies, and back. */
export const scaleOf = (width, [from, to]) => ({
  x: (t) => LEFT + ((t - from) / (to - from)) * (width - LEFT - RIGHT),
  t: (x) => from + ((x - LEFT) / (width - LEFT - RIGHT)) * (to - from),
});

/** Draws a line; of many points in a pixel, their mean. */
function drawLine(c, times, values, [from, to], x, y, width) {
  const first = Math.max(indexAt(times, from) - 1, 0);
  const last = Math.min(indexAt(times, to) + 1, times.length);
  const step = Math.max(1, Math.floor((last - first) / width));
  c.beginPath();
  let before = -Infinity;
  // Groups begin at multiples, so that the line does not tremble as it scrolls.
  for (let i = first - (first % step); i < last; i += step) {
    let [sum, n] = [0, 0];
    for (let k = i; k < Math.min(i + step, last); k += 1) {
      if (values[k] === values[k]) {
        sum += values[k];
        n += 1;
      }
    }
    if (!n) continue;
    const t = times[Math.min(i + step, last) - 1];
    if (t - before < GAP * step) c.lineTo(x(t), y(sum / n));
    else c.moveTo(x(t), y(sum / n));
    before = t;
  }
  c.stroke();
}

function greatest(times, values, [from, to]) {
  let most = 0;
  for (let i = indexAt(times, from); i < times.length && times[i] <= to; i += 1) if (values[i] > most) most = values[i];
  return most;
}

function drawTimes(c, height, range, x, ink, labels) {
  const step = roundUp((range[1] - range[0]) / 6);
  c.fillStyle = ink.muted;
  c.strokeStyle = ink.grid;
  c.lineWidth = 1;
  c.textAlign = "center";
  for (let k = Math.ceil(range[0] / step); k * step <= range[1] + 1e-9; k += 1) {
    const at = x(k * step);
    c.beginPath();
    c.moveTo(at, TOP);
    c.lineTo(at, height - BOTTOM);
    c.stroke();
    if (labels) {
      c.textAlign = at > x(range[1]) - 16 ? "right" : "center";
      c.fillText(`${Number((k * step).toPrecision(8))} s`, Math.max(at, LEFT + 4), height - 6);
    }
  }
}

export class Strip {
  /** `read`: which column of a flow; `limits(scene)`: lines `[{ steps, label, dash }]`. */
  constructor(canvas, { read, least, limits, total }) {
    Object.assign(this, { canvas, read, least, limits, total, top: 0 });
  }

  draw({ history, scene, range, hover, events, fixed, pointed }) {
    const { context: c, width, height } = sharp(this.canvas);
    const ink = colours();
    const { x } = scaleOf(width, range);
    const limits = this.limits(scene);
    c.font = SMALL;
    drawTimes(c, height, range, x, ink, true);
    const found = history.flows.map((flow) => greatest(flow.t, flow[this.read], range));
    if (this.total) found.push(greatest(history.flight.t, history.flight.packets, range));
    // A limit that is far above everything would flatten the lines.
    const data = Math.max(...found, 0);
    const lines = limits.flatMap(({ steps }) => steps.filter(([at], i) => at <= range[1] && (steps[i + 1]?.[0] ?? Infinity) > range[0]).map(([, value]) => value));
    const near = lines.filter((value) => value < data * 2.2 || value <= this.least(scene));
    const wanted = roundUp(Math.max(data, ...near, this.least(scene)) * 1.06);
    if (wanted > this.top || wanted < this.top * 0.55) this.top = wanted;
    if (fixed) this.top = fixed;
    const y = (value) => height - BOTTOM - (value / this.top) * (height - BOTTOM - TOP);
    c.textAlign = "right";
    for (let k = 0; k <= 4; k += 2) {
      const value = (this.top * k) / 4;
      c.strokeStyle = ink.grid;
      c.beginPath();
      c.moveTo(LEFT, y(value));
      c.lineTo(width - RIGHT, y(value));
      c.stroke();
      c.fillStyle = ink.muted;
      c.fillText(Number(value.toPrecision(3)), LEFT - 6, y(value) + 4);
    }
    c.save();
    c.beginPath();
    c.rect(LEFT, 0, width - LEFT - RIGHT, height - BOTTOM + 1);
    c.clip();
    if (events) {
      const { t, drops, marks } = history.link;
      let column = -1;
      for (let i = indexAt(t, range[0]); i < t.length && t[i] <= range[1]; i += 1) {
        if (!drops[i] && !marks[i]) continue;
        const at = Math.round(x(t[i]));
        if (at === column) continue;
        column = at;
        c.fillStyle = drops[i] ? ink.alarm : ink.warn;
        c.fillRect(at - 1, TOP - 6, 2, 7);
      }
    }
    let labelled = -Infinity;
    for (const { steps, label, dash } of limits) {
      c.strokeStyle = ink.muted;
      c.lineWidth = 1.2;
      c.setLineDash(dash);
      c.beginPath();
      steps.forEach(([at, value], i) => {
        const to = Math.min(steps[i + 1]?.[0] ?? Infinity, range[1]);
        c.lineTo(x(Math.max(at, range[0] - 1)), y(value));
        c.lineTo(x(to), y(value));
      });
      c.stroke();
      c.setLineDash([]);
      const value = steps.filter(([at]) => at <= range[1]).at(-1)[1];
      const above = y(value) - 5;
      if (above > TOP - 2 && Math.abs(above - labelled) > 12) {
        labelled = above;
        c.fillStyle = ink.muted;
        c.textAlign = "right";
        c.fillText(label, width - RIGHT - 4, above < TOP + 4 ? y(value) + 13 : above);
      }
    }
    if (this.total && history.flows.length > 1) {
      c.strokeStyle = ink.ink;
      c.globalAlpha = 0.5;
      c.lineWidth = 1;
      drawLine(c, history.flight.t, history.flight.packets, range, x, y, width);
      c.globalAlpha = 1;
    }
    c.lineJoin = "round";
    history.flows.forEach((flow, i) => {
      c.strokeStyle = colourOf(i);
      c.lineWidth = history.flows.length > 6 ? 1.4 : 2;
      drawLine(c, flow.t, flow[this.read], range, x, y, width);
    });
    if (pointed !== undefined) {
      c.strokeStyle = ink.accent;
      c.lineWidth = 2;
      c.beginPath();
      c.moveTo(LEFT, y(pointed));
      c.lineTo(width - RIGHT, y(pointed));
      c.stroke();
      c.fillStyle = ink.accent;
      c.textAlign = "left";
      c.fillText(`you: ${pointed.toPrecision(2)} Mbit/s`, LEFT + 6, Math.max(y(pointed) - 5, 12));
    }
    if (hover !== null) {
      c.strokeStyle = ink.muted;
      c.lineWidth = 1;
      c.beginPath();
      c.moveTo(x(hover), TOP);
      c.lineTo(x(hover), height - BOTTOM);
      c.stroke();
    }
    c.restore();
  }
}

const ROW = 22;

/** Phases of the algorithms, a row for each flow. */
export class Phases {
  constructor(canvas) {
    this.canvas = canvas;
    this.found = [];
  }

  draw({ history, scene, range, hover, phaseOf }) {
    const rows = history.flows.length;
    this.canvas.style.height = `${rows * ROW + 6}px`;
    const { context: c, width, height } = sharp(this.canvas);
    const ink = colours();
    const { x } = scaleOf(width, range);
    c.font = SMALL;
    this.found = [];
    c.save();
    c.beginPath();
    c.rect(LEFT, 0, width - LEFT - RIGHT, height);
    c.clip();
    history.flows.forEach((flow, i) => {
      const top = i * ROW + 3;
      const last = Math.min(indexAt(flow.t, range[1]) + 1, flow.t.length);
      let from = Math.max(indexAt(flow.t, range[0]) - 1, 0);
      while (from < last) {
        let to = from + 1;
        while (to < last && (flow.state[to] & 0xffff) === (flow.state[from] & 0xffff)) to += 1;
        const state = flow.state[from];
        const [phase, recovery] = [state & 0xff, state >> 8 & 0xff];
        const begin = from === 0 ? flow.t[0] - scene.interval / 1e6 : flow.t[from - 1];
        const [x0, x1] = [Math.max(x(begin), LEFT), Math.min(x(flow.t[to - 1]), width - RIGHT)];
        c.fillStyle = recovery >= 3 ? ink.alarm : colourOf(i);
        c.globalAlpha = recovery >= 3 ? 0.75 : [0.3, 0.55, 0.75, 0.42, 0.65, 0.5, 0.85][phase % 7];
        c.fillRect(x0, top, Math.max(x1 - x0 - (x1 - x0 > 3 ? 1 : 0), 0.6), ROW - 5);
        c.globalAlpha = 1;
        const text = recovery >= 3 ? RECOVERY[recovery] : phaseOf(i, phase).replaceAll("_", " ");
        this.found.push({ flow: i, x0, x1, top, phase, recovery });
        if (c.measureText(text).width + 10 < x1 - x0) {
          c.fillStyle = ink.ink;
          c.textAlign = "left";
          c.fillText(text, x0 + 5, top + 12.5);
        }
        from = to;
      }
    });
    if (hover !== null) {
      c.strokeStyle = ink.muted;
      c.beginPath();
      c.moveTo(x(hover), 0);
      c.lineTo(x(hover), height);
      c.stroke();
    }
    c.restore();
  }

  /** The phase at a point. */
  at(px, py) {
    return this.found.find(({ x0, x1, top }) => px >= x0 - 1 && px <= x1 + 1 && py >= top - 3 && py < top + ROW - 3);
  }
}
