// Questions of lessons: the reader predicts, by a choice or by a drawing, and then sees what happens.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  for (const box of document.querySelectorAll("form.pick")) pick(box);
  for (const box of document.querySelectorAll(".predict.draw")) draw(box);
});

function pick(box) {
  const right = Number(box.dataset.right);
  const answer = box.querySelector(".answer");
  box.addEventListener("change", ({ target }) => {
    box.querySelectorAll("label").forEach((label, i) => {
      label.classList.toggle("right", i + 1 === right);
      label.classList.toggle("wrong", Number(target.value) === i + 1 && i + 1 !== right);
    });
    answer.textContent = Number(target.value) === right ? "Yes. Run it below and see why." : "Not quite. Run it below and see why.";
    answer.hidden = false;
  });
}

/** Share of the axis within which a drawn value is right. */
const NEAR = 0.15;

/** What a line shows: `[t, value]` of its points, whose values are on an axis up to `top`. */
function seen(points, top) {
  const values = points.map(([, value]) => Math.min(value, top));
  let [falls, high, low, down] = [0, values[0], values[0], false];
  for (const value of values) {
    // A fall by a tenth of the axis, once until it has risen by as much again.
    if (down) {
      low = Math.min(low, value);
      if (value > low + top / 10) [down, high] = [false, value];
    } else {
      high = Math.max(high, value);
      if (value < high - top / 10) [down, low, falls] = [true, value, falls + 1];
    }
  }
  const mean = points.slice(1).reduce((sum, [t], i) => sum + values[i] * (t - points[i][0]), 0) / (points.at(-1)[0] - points[0][0]);
  return { "the start": values[0], "the highest value": Math.max(...values), "the mean": mean, "the end": values.at(-1), falls };
}

/** Says what of a drawing is right, beside what was measured over the same time. */
function judged(drawn, measured, top, unit) {
  const line = "The orange line is measured.";
  if (drawn.length < 2) return `${line} Draw one before you look, to see what you expect.`;
  const [from, to] = [drawn[0][0], drawn.at(-1)[0]];
  const part = measured.filter(([t]) => t >= from && t <= to);
  if (part.length < 2) return line;
  const [mine, real] = [seen(drawn, top), seen(part, top)];
  const times = (n) => `${n} ${n === 1 ? "time" : "times"}`;
  const [right, wrong] = [[], []];
  for (const [name, value] of Object.entries(real)) {
    if (name === "falls") {
      if (mine.falls === value) right.push(value ? `that it falls ${times(value)}` : "that it does not fall");
      else wrong.push(`it falls ${times(value)}, in your drawing ${times(mine.falls)}`);
    } else if (Math.abs(mine[name] - value) <= NEAR * top) right.push(name);
    else wrong.push(`${name} is ${Math.round(value)} ${unit}, in your drawing ${Math.round(mine[name])}`);
  }
  return [line, right.length ? `You were right about ${right.join(", ")}.` : "", wrong.length ? `Not right: ${wrong.join("; ")}.` : ""].filter(Boolean).join(" ");
}

/** A canvas to draw a line on, and the measured one over it once the reader is done. */
function draw(box) {
  const { from, to, top, unit } = box.dataset;
  const measured = JSON.parse(box.dataset.measured);
  const canvas = box.querySelector("canvas");
  const drawn = [];
  const margin = { left: 48, bottom: 22, top: 8, right: 8 };
  let shown = false;
  let down = false;

  function paint() {
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = canvas;
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const x = (t) => margin.left + ((t - from) / (to - from)) * (width - margin.left - margin.right);
    const y = (value) => height - margin.bottom - (value / top) * (height - margin.bottom - margin.top);
    c.fillStyle = c.strokeStyle = style.color;
    c.font = `12px ${style.fontFamily}`;
    c.globalAlpha = 0.25;
    c.strokeRect(margin.left, margin.top, width - margin.left - margin.right, height - margin.bottom - margin.top);
    c.globalAlpha = 1;
    c.textAlign = "right";
    c.fillText(top, margin.left - 5, y(top) + 10);
    c.fillText(0, margin.left - 5, y(0));
    c.fillText(`${to} s`, x(to), height - 6);
    c.textAlign = "left";
    c.fillText(unit, margin.left + 5, y(top) + 14);
    c.fillText(`${from} s`, x(from), height - 6);
    const line = (points, colour) => {
      c.strokeStyle = colour;
      c.lineWidth = 2;
      c.beginPath();
      points.forEach(([t, value]) => c.lineTo(x(t), y(Math.min(value, top))));
      c.stroke();
    };
    line(drawn, style.getPropertyValue("--color-brand-primary"));
    if (shown) line(measured, "#D55E00");
  }

  function add(event) {
    const area = canvas.getBoundingClientRect();
    const part = (event.clientX - area.left - margin.left) / (area.width - margin.left - margin.right);
    const high = 1 - (event.clientY - area.top - margin.top) / (area.height - margin.top - margin.bottom);
    const t = Number(from) + Math.min(Math.max(part, 0), 1) * (to - from);
    // Going back draws anew from there.
    while (drawn.length && drawn.at(-1)[0] >= t) drawn.pop();
    drawn.push([t, Math.min(Math.max(high, 0), 1) * top]);
    paint();
  }

  canvas.addEventListener("pointerdown", (event) => {
    down = true;
    canvas.setPointerCapture(event.pointerId);
    add(event);
  });
  canvas.addEventListener("pointermove", (event) => { if (down) add(event); });
  canvas.addEventListener("pointerup", () => { down = false; });
  box.querySelector("button").addEventListener("click", () => {
    shown = true;
    Object.assign(box.querySelector(".answer"), { hidden: false, textContent: judged(drawn, measured, Number(top), unit) });
    paint();
  });
  new ResizeObserver(paint).observe(canvas);
}
