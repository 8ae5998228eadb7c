// Colours of the page and sharp canvases.

/** Okabe and Ito's colours without yellow and black; a flow keeps its own. */
export const FLOW_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5230"];
const MORE = ["#332288", "#117733", "#AA4499", "#882255", "#999933", "#44AA99", "#CC6677", "#661100", "#6699CC", "#888888", "#A6761D", "#5B8C5A", "#B07AA1"];
const DARK = { "#0072B2": "#3FA3E0", "#7A5230": "#B98A5E", "#332288": "#8C7BE0", "#117733": "#4FB36F", "#882255": "#C65A92", "#661100": "#C66A50" };

const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = null;
dark.addEventListener("change", () => { theme = null; });

/** The page's colours by name. */
export function colours() {
  if (!theme) {
    const style = getComputedStyle(document.documentElement);
    theme = Object.fromEntries(["ink", "muted", "grid", "paper", "alarm", "good", "line", "rule", "soft", "accent", "warn"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    theme.flows = [...FLOW_COLOURS, ...MORE].map((colour) => (dark.matches && DARK[colour]) || colour);
  }
  return theme;
}

export const colourOf = (flow) => colours().flows[flow % colours().flows.length];

export const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
export const SMALL = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

/** A context whose unit is a CSS pixel, and the size; clears the canvas. */
export function sharp(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
