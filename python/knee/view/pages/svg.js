"use strict";
// A canvas context that writes SVG instead of pixels: what uPlot and draw.js draw is then a drawing of lines and text.
const svgContext = (() => {
  const escape = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)
    // Control characters are not allowed in XML.
    .replace(/[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]/g, "\uFFFD");
  const round = (value) => Math.round(value * 100) / 100;

  class SvgContext {
    constructor(canvas) {
      Object.assign(this, { canvas, parts: [], d: "", state: this.fresh(), stack: [], clips: 0 });
      SvgContext.count += 1;
      this.id = `clip${SvgContext.count}`;
    }

    fresh() { return { move: [0, 0, 0], clip: "", dash: [], alpha: 1 }; }

    save() { this.stack.push([{ ...this.state }, this.look()]); }

    restore() {
      const [state, look] = this.stack.pop() ?? [this.fresh(), {}];
      this.state = state;
      Object.assign(this, look);
    }

    look() {
      const { fillStyle, strokeStyle, lineWidth, lineJoin, lineCap, font, textAlign, textBaseline, globalAlpha } = this;
      return { fillStyle, strokeStyle, lineWidth, lineJoin, lineCap, font, textAlign, textBaseline, globalAlpha };
    }

    setTransform() { this.state.move = [0, 0, 0]; }

    translate(x, y) {
      const [a, b, turn] = this.state.move;
      this.state.move = [a + x, b + y, turn];
    }

    rotate(angle) {
      const [a, b, turn] = this.state.move;
      this.state.move = [a, b, turn + angle];
    }

    setLineDash(dash) { this.state.dash = dash; }

    beginPath() { this.d = ""; }

    moveTo(x, y) { this.d += `M${round(x)} ${round(y)}`; }

    lineTo(x, y) { this.d += `L${round(x)} ${round(y)}`; }

    closePath() { this.d += "Z"; }

    rect(x, y, w, h) { this.d += `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}Z`; }

    arc(x, y, r) { this.d += `M${round(x - r)} ${round(y)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`; }

    clearRect() { }

    fillRect(x, y, w, h) {
      this.beginPath();
      this.rect(x, y, w, h);
      this.fill();
    }

    clip() {
      this.clips += 1;
      const id = `${this.id}-${this.clips}`;
      this.parts.push(`<clipPath id="${id}"><path d="${this.d}"/></clipPath>`);
      this.state.clip = id;
    }

    fill() { this.write(`fill="${escape(String(this.fillStyle))}"`); }

    stroke() {
      if (!(this.lineWidth > 0)) return;
      const dash = this.state.dash.length ? ` stroke-dasharray="${this.state.dash.join(" ")}"` : "";
      const join = this.lineJoin === "round" ? ' stroke-linejoin="round"' : "";
      this.write(`fill="none" stroke="${escape(String(this.strokeStyle))}" stroke-width="${round(this.lineWidth)}"${dash}${join}`);
    }

    common() {
      const [x, y, turn] = this.state.move;
      const moved = x || y || turn ? ` transform="translate(${round(x)} ${round(y)}) rotate(${round(turn * 180 / Math.PI)})"` : "";
      const clip = this.state.clip ? ` clip-path="url(#${this.state.clip})"` : "";
      const alpha = this.globalAlpha < 1 ? ` opacity="${round(this.globalAlpha)}"` : "";
      return `${moved}${clip}${alpha}`;
    }

    write(style) { if (this.d) this.parts.push(`<path d="${this.d}" ${style}${this.common()}/>`); }

    measureText(text) { return { width: text.length * 6 }; }

    fillText(text, x, y) {
      const anchor = { center: "middle", right: "end", end: "end" }[this.textAlign] ?? "start";
      const base = { top: "0.8em", middle: "0.35em", bottom: "-0.2em" }[this.textBaseline] ?? "0";
      const [, weight, size] = /^(.*?)([\d.]+)px/.exec(this.font) ?? ["", "", 12];
      const bold = /bold|[67]00/.test(weight) ? ' font-weight="600"' : "";
      this.parts.push(`<text x="${round(x)}" y="${round(y)}" dy="${base}" font-size="${size}"${bold} text-anchor="${anchor}" `
        + `fill="${escape(String(this.fillStyle))}"${this.common()}>${escape(text)}</text>`);
    }

    strokeText() { }
  }
  SvgContext.count = 0;
  Object.assign(SvgContext.prototype, {
    fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, font: "12px sans-serif", textAlign: "start",
    textBaseline: "alphabetic", globalAlpha: 1, lineJoin: "miter", lineCap: "butt", lineDashOffset: 0,
  });

  /** Runs `make`, in which each canvas gives an SvgContext; what it returns is returned. */
  function recorded(make) {
    const { getContext } = HTMLCanvasElement.prototype;
    HTMLCanvasElement.prototype.getContext = function context() { return new SvgContext(this); };
    try {
      return make();
    } finally {
      HTMLCanvasElement.prototype.getContext = getContext;
    }
  }

  return { SvgContext, escape, recorded };
})();
