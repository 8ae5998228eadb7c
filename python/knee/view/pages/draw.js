"use strict";
// Draws the series of a chart into a uPlot panel: on its canvas, or on anything with a canvas's methods (svg.js).
const drawing = (() => {
  const DASHES = { solid: [], dash: [7, 4], dot: [1.5, 3] };
  /** Names of colours that depend on the theme; the rest are given as #RRGGBB. */
  const THEMES = JSON.parse(document.getElementById("themes").textContent);
  const system = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => (system.matches && !matchMedia("print").matches ? "dark" : "light");

  const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const hex = (parts) => `#${parts.map((part) => Math.round(part).toString(16).padStart(2, "0")).join("")}`;

  /** A colour in a theme; on dark paper, colours that are too dark to be seen are lightened. */
  function themed(colour, where) {
    if (THEMES[where][colour]) return THEMES[where][colour];
    if (where === "light") return colour;
    const parts = channels(colour);
    const [r, g, b] = parts;
    const light = (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
    const lift = light < 0.45 ? (0.45 - light) / (1 - light) : 0;
    return hex(parts.map((part) => part + (255 - part) * lift));
  }

  const pale = (colour, opacity) => colour + Math.round(255 * opacity).toString(16).padStart(2, "0");

  /** Functions from values to pixels of the canvas. */
  function places(u) {
    const { left, top, width, height } = u.bbox;
    const across = (scale, from, length, turned) => {
      const [low, high] = scale.distr === 3 ? [Math.log10(scale.min), Math.log10(scale.max)] : [scale.min, scale.max];
      const factor = (turned ? -length : length) / (high - low || 1);
      const start = (turned ? from + length : from) - low * factor;
      return scale.distr === 3
        ? (value) => start + factor * Math.log10(Math.max(value, 1e-300))
        : (value) => start + factor * value;
    };
    return [across(u.scales.x, left, width, false), across(u.scales.y, top, height, true)];
  }

  /** The first index whose value is not below `value`. */
  function lower(values, value) {
    let [from, to] = [0, values.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (values[middle] < value) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  function ordered(item) {
    if (item.ordered === undefined) {
      item.ordered = true;
      for (let i = 1; i < item.x.length && item.ordered; i += 1) item.ordered = item.x[i - 1] <= item.x[i];
    }
    return item.ordered;
  }

  /** The indices to draw: those in the window, and one beyond each edge. */
  function window_(u, item) {
    if (!ordered(item)) return [0, item.x.length];
    return [Math.max(lower(item.x, u.scales.x.min) - 1, 0), Math.min(lower(item.x, u.scales.x.max) + 2, item.x.length)];
  }

  /** A line. Where there are more points than pixels, each column has its first, extreme and last points (M4). */
  function path(ctx, u, item) {
    const [X, Y] = places(u);
    const [from, to] = window_(u, item);
    const dense = ordered(item) && to - from > 4 * u.bbox.width;
    let [column, low, high, last, at, open] = [NaN, 0, 0, 0, 0, false];
    const flush = () => {
      if (low !== last) ctx.lineTo(at, low);
      if (high !== low) ctx.lineTo(at, high);
      if (last !== high) ctx.lineTo(at, last);
      column = NaN;
    };
    ctx.beginPath();
    for (let i = from; i < to; i += 1) {
      const value = item.y[i];
      if (!Number.isFinite(value)) {
        if (dense && !Number.isNaN(column)) flush();
        open = false;
        continue;
      }
      const [x, y] = [X(item.x[i]), Y(value)];
      if (dense && open && Math.floor(x) === column) {
        [low, high, last] = [Math.min(low, y), Math.max(high, y), y];
        continue;
      }
      if (dense && !Number.isNaN(column)) flush();
      if (!open) ctx.moveTo(x, y);
      else {
        if (item.step) ctx.lineTo(x, last);
        ctx.lineTo(x, y);
      }
      [column, at, low, high, last, open] = [Math.floor(x), x, y, y, y, true];
    }
    if (dense && !Number.isNaN(column)) flush();
    ctx.stroke();
  }

  const SHAPES = {
    circle: (ctx, x, y, r) => ctx.arc(x, y, r, 0, 2 * Math.PI),
    square: (ctx, x, y, r) => ctx.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r),
    diamond: (ctx, x, y, r) => polygon(ctx, x, y, 1.25 * r, [[0, -1], [1, 0], [0, 1], [-1, 0]]),
    "triangle-up": (ctx, x, y, r) => polygon(ctx, x, y, 1.2 * r, [[0, -1], [0.95, 0.75], [-0.95, 0.75]]),
    "triangle-down": (ctx, x, y, r) => polygon(ctx, x, y, 1.2 * r, [[0, 1], [0.95, -0.75], [-0.95, -0.75]]),
    cross: (ctx, x, y, r) => polygon(ctx, x, y, r, PLUS),
    x: (ctx, x, y, r) => polygon(ctx, x, y, r, PLUS.map(([a, b]) => [0.72 * (a - b), 0.72 * (a + b)])),
    star: (ctx, x, y, r) => polygon(ctx, x, y, 1.4 * r, STAR),
  };
  const PLUS = [[-0.35, -1], [0.35, -1], [0.35, -0.35], [1, -0.35], [1, 0.35], [0.35, 0.35], [0.35, 1], [-0.35, 1],
    [-0.35, 0.35], [-1, 0.35], [-1, -0.35], [-0.35, -0.35]];
  const STAR = Array.from({ length: 10 }, (_, i) => {
    const [angle, size] = [(i * Math.PI) / 5, i % 2 ? 0.45 : 1];
    return [size * Math.sin(angle), -size * Math.cos(angle)];
  });

  function polygon(ctx, x, y, size, corners) {
    corners.forEach(([dx, dy], i) => ctx[i ? "lineTo" : "moveTo"](x + dx * size, y + dy * size));
    ctx.closePath();
  }

  function symbol(ctx, name, x, y, radius) {
    ctx.beginPath();
    (SHAPES[name] ?? SHAPES.circle)(ctx, x, y, radius);
    ctx.fill();
  }

  /** The symbols of a series; where they would cover each other, one of each place. */
  function symbols(ctx, u, item, name, radius) {
    const [X, Y] = places(u);
    const [from, to] = window_(u, item);
    const seen = to - from > 5000 ? new Set() : null;
    for (let i = from; i < to; i += 1) {
      const [x, y] = [X(item.x[i]), Y(item.y[i])];
      if (!Number.isFinite(y)) continue;
      const place = seen && Math.round(x / 2) * 100_003 + Math.round(y / 2);
      if (seen?.has(place)) continue;
      seen?.add(place);
      symbol(ctx, name, x, y, radius);
    }
  }

  const alone = (item) => {
    let known = 0;
    for (let i = 0; i < item.y.length && known < 2; i += 1) known += Number.isFinite(item.y[i]) ? 1 : 0;
    return known === 1;
  };

  const kinds = {
    line(ctx, u, item, colour, ratio) {
      ctx.strokeStyle = colour;
      ctx.fillStyle = colour;
      ctx.lineWidth = item.width * ratio;
      ctx.lineJoin = "round";
      ctx.setLineDash(DASHES[item.dash].map((part) => part * ratio));
      if (item.width > 0) path(ctx, u, item);
      ctx.setLineDash([]);
      if (item.half) whiskers(ctx, u, item, ratio);
      if (item.marker || alone(item)) symbols(ctx, u, item, item.marker ?? "circle", 3.4 * ratio);
    },
    marks(ctx, u, item, colour, ratio) {
      ctx.fillStyle = colour;
      ctx.globalAlpha = item.opacity ?? 1;
      symbols(ctx, u, item, item.symbol, item.size * ratio);
      ctx.globalAlpha = 1;
    },
    band(ctx, u, item, colour) {
      const [X, Y] = places(u);
      const [from, to] = window_(u, item);
      const known = (i) => Number.isFinite(item.low[i]) && Number.isFinite(item.high[i]);
      ctx.fillStyle = pale(colour, item.opacity);
      for (let start = from; start < to; start += 1) {
        if (!known(start)) continue;
        let end = start;
        while (end + 1 < to && known(end + 1)) end += 1;
        ctx.beginPath();
        for (let i = start; i <= end; i += 1) ctx[i === start ? "moveTo" : "lineTo"](X(item.x[i]), Y(item.high[i]));
        for (let i = end; i >= start; i -= 1) ctx.lineTo(X(item.x[i]), Y(item.low[i]));
        ctx.closePath();
        ctx.fill();
        start = end;
      }
    },
    spans(ctx, u, item, colour) {
      const [X] = places(u);
      const { top, height } = u.bbox;
      ctx.fillStyle = colour;
      ctx.beginPath();
      item.spans.forEach(([from, to]) => {
        const left = X(from);
        ctx.rect(left, top + height * (1 - item.high), Math.max(X(to) - left, 0.5), height * (item.high - item.low));
      });
      ctx.fill();
    },
    rules(ctx, u, item, colour, ratio) {
      const [X] = places(u);
      const { top, height } = u.bbox;
      ctx.strokeStyle = colour;
      ctx.lineWidth = item.width * ratio;
      ctx.setLineDash(DASHES[item.dash].map((part) => part * ratio));
      // That many would hide the lines.
      ctx.globalAlpha = item.x.length > 100 ? 0.35 : 1;
      ctx.beginPath();
      item.x.forEach((at) => {
        ctx.moveTo(X(at), top + height * (1 - item.low));
        ctx.lineTo(X(at), top + height * (1 - item.high));
      });
      ctx.stroke();
      ctx.setLineDash([]);
      ctx.globalAlpha = 1;
    },
    bars(ctx, u, item, colour, ratio) {
      const [X, Y] = places(u);
      ctx.fillStyle = colour;
      ctx.strokeStyle = themed("ink", u.knee.theme);
      ctx.lineWidth = ratio;
      item.x.forEach((x, i) => {
        if (!Number.isFinite(item.y[i])) return;
        const [left, right, zero, top] = [X(x - item.width / 2), X(x + item.width / 2), Y(Math.max(u.scales.y.min, 0)), Y(item.y[i])];
        ctx.beginPath();
        ctx.rect(left, Math.min(top, zero), right - left, Math.abs(zero - top));
        ctx.fill();
        if (item.half?.[i] > 0) whisker(ctx, (left + right) / 2, Y(item.y[i] - item.half[i]), Y(item.y[i] + item.half[i]), 4 * ratio);
      });
    },
    boxes(ctx, u, item, colour, ratio) {
      const [X, Y] = places(u);
      ctx.strokeStyle = colour;
      ctx.fillStyle = pale(colour, 0.25);
      ctx.lineWidth = 1.2 * ratio;
      item.x.forEach((x, i) => {
        const [low, first, middle, third, high] = item.five[i].map(Y);
        const [left, right, centre] = [X(x - item.width / 2), X(x + item.width / 2), X(x)];
        ctx.beginPath();
        ctx.rect(left, third, right - left, first - third);
        ctx.fill();
        ctx.stroke();
        whisker(ctx, centre, first, low, (right - left) / 4);
        whisker(ctx, centre, third, high, (right - left) / 4);
        ctx.lineWidth = 2 * ratio;
        ctx.beginPath();
        ctx.moveTo(left, middle);
        ctx.lineTo(right, middle);
        ctx.stroke();
        ctx.lineWidth = 1.2 * ratio;
        ctx.fillStyle = colour;
        (item.beyond?.[i] ?? []).forEach((value) => symbol(ctx, "circle", centre, Y(value), 2 * ratio));
        ctx.fillStyle = pale(colour, 0.25);
      });
    },
    heat(ctx, u, item, _, ratio) {
      const [X, Y] = places(u);
      const [width, height] = [Math.abs(X(1) - X(0)), Math.abs(Y(1) - Y(0))];
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      ctx.font = `${11 * ratio}px ${FONT}`;
      const texts = item.z.map((row) => row.map((value) => (Number.isFinite(value) ? shortened(value, 3) : "")));
      const fits = texts.flat().every((text) => text.length * 6.4 * ratio < width - 4) && height > 15 * ratio;
      item.z.forEach((row, j) => row.forEach((value, i) => {
        if (!Number.isFinite(value)) return;
        const fill = shade(item, value);
        ctx.fillStyle = hex(fill);
        ctx.beginPath();
        ctx.rect(X(i) - width / 2 + 0.5, Y(j) - height / 2 + 0.5, width - 1, height - 1);
        ctx.fill();
        if (!fits) return;
        ctx.fillStyle = 0.299 * fill[0] + 0.587 * fill[1] + 0.114 * fill[2] > 140 ? "#111111" : "#FFFFFF";
        ctx.fillText(texts[j][i], X(i), Y(j));
      }));
    },
  };

  /** The colour of a heat map's value, as its three channels. */
  function shade(item, value) {
    const scale = (x) => (item.log ? Math.log10(Math.max(x, 1e-12)) : x);
    const part = (scale(value) - scale(item.low)) / (scale(item.high) - scale(item.low) || 1);
    const at = Math.min(Math.max(part, 0), 1) * (item.colours.length - 1);
    const left = Math.min(Math.floor(at), item.colours.length - 2);
    const [a, b] = [channels(item.colours[left]), channels(item.colours[left + 1])];
    return a.map((x, i) => Math.round(x + (b[i] - x) * (at - left)));
  }

  /** The intervals of a line's points that no band shows: those without a neighbour, and all where no line joins them. */
  function whiskers(ctx, u, item, ratio) {
    const [X, Y] = places(u);
    const { x, y, half, width } = item;
    ctx.lineWidth = 1.2 * ratio;
    for (let i = 0; i < x.length; i += 1) {
      if (!(half[i] > 0) || (width > 0 && (half[i - 1] > 0 || half[i + 1] > 0))) continue;
      whisker(ctx, X(x[i]), Y(y[i] - half[i]), Y(y[i] + half[i]), 3 * ratio);
      whisker(ctx, X(x[i]), Y(y[i]), Y(y[i] - half[i]), 3 * ratio);
    }
  }

  function whisker(ctx, x, from, to, half) {
    ctx.beginPath();
    ctx.moveTo(x, from);
    ctx.lineTo(x, to);
    ctx.moveTo(x - half, to);
    ctx.lineTo(x + half, to);
    ctx.stroke();
  }

  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  const GROUP = "\u202f";

  /** A number with `digits` significant digits, thousands apart. */
  function shortened(value, digits = 4) {
    if (value === null || !Number.isFinite(value)) return "–";
    const rounded = Number(value.toPrecision(digits));
    if (rounded !== 0 && Math.abs(rounded) < 1e-4) return rounded.toExponential();
    const [whole, part] = String(Math.abs(rounded)).split(".");
    const text = whole.length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, GROUP) : whole;
    return `${rounded < 0 ? "−" : ""}${text}${part ? `.${part}` : ""}`;
  }

  /** Draws all shown items of a panel. */
  function panel(u, items) {
    const { ctx, bbox: { left, top, width, height } } = u;
    const { theme: where } = u.knee;
    const ratio = uPlot.pxRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    for (const item of items) kinds[item.kind](ctx, u, item, item.colour && themed(item.colour, where), ratio);
    ctx.restore();
  }

  return { panel, places, lower, ordered, shade, shortened, symbol, system, theme, themed, pale, DASHES, FONT, hex };
})();
