// The state of the page, as `Scene` in crates/knee-wasm/src/scene.rs has it, and as text in the address.

/** The experiment that the page starts with. */
export const FIRST = {
  rate: 20e6, rtt: 40e3, buffer: 100, loss: 0, queue: "pfifo", ecn: false, duration: 60e6, interval: 20e3, seed: 1,
  flows: [{ cc: "cubic", start: 0, stop: null, rtt: null, quic: false }], changes: [], hand: [],
};

const flow = (cc, start = 0, stop = null, rtt = null) => ({ cc, start: start * 1e6, stop: stop === null ? null : stop * 1e6, rtt, quic: false });

/** Experiments to begin with: what differs from `FIRST`, and what to look at. */
export const EXPERIMENTS = [
  { name: "One CUBIC flow", about: "Slow start fills the buffer, then the window saws between loss and loss.", scene: {} },
  { name: "Bufferbloat", about: "Ten times the buffer: no more throughput, but seconds of delay.", scene: { rate: 10e6, buffer: 1000 } },
  { name: "CUBIC beside BBR", about: "One fills the buffer, the other measures the path. Who gets more?", scene: { flows: [flow("cubic"), flow("bbr", 5)] } },
  { name: "Three LoLa flows", about: "Low delay and fair: they agree on a queue of 5 ms.", scene: { rate: 50e6, buffer: 400, flows: [flow("lola"), flow("lola", 5), flow("lola", 15)] } },
  { name: "LoLa beside CUBIC", about: "A flow that avoids queues beside one that fills them.", scene: { flows: [flow("lola"), flow("cubic", 10, 30)] } },
  { name: "Random loss", about: "One packet in a hundred is lost. CUBIC takes it for congestion; BBR does not.", scene: { loss: 0.01, flows: [flow("cubic"), flow("bbr", 0.1)] } },
  { name: "fq_codel at the bottleneck", about: "A queue for each flow, each kept short.", scene: { queue: "fq_codel", buffer: 1000, flows: [flow("cubic"), flow("bbr", 2), flow("lola", 4)] } },
  { name: "DCTCP and marks", about: "The queue marks packets instead of dropping them.", scene: { queue: "codel", buffer: 500, flows: [flow("dctcp"), flow("dctcp", 3)] } },
  { name: "Ten flows", about: "Ten CUBIC flows that start a second apart.", scene: { rate: 50e6, buffer: 200, flows: Array.from({ length: 10 }, (_, i) => flow("cubic", i)) } },
];

/** A scene from what differs from `FIRST`. */
export const sceneOf = (differs) => structuredClone({ ...FIRST, ...differs });

const WHOLE = { rate: "rate", rtt: "rtt", buffer: "buffer", duration: "duration", interval: "interval", seed: "seed" };
const PARTS = { flows: 1, changes: 1, hand: 1, view: 1, t: 1, speed: 1, loss: 1, queue: 1, ecn: 1, ...WHOLE };

/** The address of a scene: what differs from `FIRST`. `more` has keys of the page: `t`, `view`, `speed`. */
export function toHash(scene, more = {}) {
  const parts = Object.keys(WHOLE).concat("loss", "queue").filter((key) => scene[key] !== FIRST[key]).map((key) => `${key}=${scene[key]}`);
  if (scene.ecn) parts.push("ecn=on");
  const flows = scene.flows.map(({ cc, start, stop, rtt, quic }) => [cc, start, stop ?? "", rtt ?? "", quic ? "quic" : ""].join(":").replace(/:+$/, "").replace(/^(\w[^:]*):0$/, "$1")).join(",");
  if (flows !== "cubic") parts.push(`flows=${flows}`);
  if (scene.changes.length) parts.push(`changes=${scene.changes.map(({ at, to }) => [at, ...Object.entries(to)[0]].join(":")).join(",")}`);
  if (scene.hand.length) parts.push(`hand=${scene.hand.map((pair) => pair.join(":")).join(",")}`);
  for (const [key, value] of Object.entries(more)) parts.push(`${key}=${value}`);
  return `#${parts.join("&")}`;
}

function whole(key, text) {
  if (!/^\d{1,15}$/.test(text)) throw new Error(`\`${key}\` is “${text.slice(0, 40)}”, not a whole number`);
  return Number(text);
}

function ratio(key, text) {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) throw new Error(`\`${key}\` is “${text.slice(0, 40)}”, not a number`);
  return value;
}

/**
 * The scene and the page's keys of an address. The engine checks ranges and names.
 *
 * @throws where it is none, with what is wrong.
 */
export function fromHash(hash) {
  const told = { scene: sceneOf({}), more: {} };
  for (const part of hash.replace(/^#/, "").split("&").filter(Boolean)) {
    const at = part.indexOf("=");
    const [key, text] = at < 0 ? [part, ""] : [part.slice(0, at), decodeURIComponent(part.slice(at + 1))];
    if (!Object.hasOwn(PARTS, key)) throw new Error(`it has a part “${key.slice(0, 40)}”, which is none of ${Object.keys(PARTS).join(", ")}`);
    if (Object.hasOwn(WHOLE, key)) told.scene[key] = whole(key, text);
    else if (key === "loss") told.scene.loss = ratio(key, text);
    else if (key === "queue") told.scene.queue = text;
    else if (key === "ecn") told.scene.ecn = text === "on";
    else if (key === "flows") {
      told.scene.flows = text.split(",").map((one) => {
        const [cc, start = "0", stop = "", rtt = "", transport = ""] = one.split(":");
        if (!["", "quic"].includes(transport)) throw new Error(`a flow goes over “${transport.slice(0, 40)}”, which is not quic`);
        const maybe = (text) => (text === "" ? null : whole("flows", text));
        return { cc, start: whole("flows", start || "0"), stop: maybe(stop), rtt: maybe(rtt), quic: transport === "quic" };
      });
    } else if (key === "changes") {
      told.scene.changes = text.split(",").map((one) => {
        const [when, what, value = ""] = one.split(":");
        if (!["rate", "rtt", "buffer", "loss"].includes(what)) throw new Error(`a change is of “${(what ?? "").slice(0, 40)}”, not of rate, rtt, buffer or loss`);
        return { at: whole("changes", when), to: { [what]: what === "loss" ? ratio(key, value) : whole("changes", value) } };
      });
    } else if (key === "hand") {
      told.scene.hand = text.split(",").map((one) => one.split(":").map((n) => whole("hand", n)));
      if (told.scene.hand.some((pair) => pair.length !== 2)) throw new Error("`hand` is no list of times and rates");
    } else if (key === "view") told.more.view = text;
    else told.more[key] = ratio(key, text);
  }
  return told;
}

/** The values of the controls at `at` (us): `{ rate, rtt, buffer, loss }`. */
export function valuesAt(scene, at) {
  const { rate, rtt, buffer, loss } = scene;
  return scene.changes.filter((change) => change.at <= at).reduce((values, { to }) => ({ ...values, ...to }), { rate, rtt, buffer, loss });
}

/** Changes a control to `value` at `at` (us); it replaces a change of the same control less than `near` us before. */
export function place(scene, key, value, at, near = 0) {
  const last = scene.changes.findLast(({ to }) => to[key] !== undefined);
  if (last && (last.at === at || at - last.at < near)) last.to[key] = value;
  else scene.changes.push({ at, to: { [key]: value } });
}

/**
 * The value that a slider means which was moved from the value `from` to `position` of 0 to 1000. Values are round, so
 * that several positions have one: the next other one in the direction of the move, such as of an arrow key.
 */
export function moved(valueOf, positionOf, from, position) {
  const way = Math.sign(position - positionOf(from));
  let at = position;
  while (way && valueOf(at) === from && at + way >= 0 && at + way <= 1000) at += way;
  return valueOf(at);
}

/** Steps of a value over time: `[[from s, value], …]`. */
export function stepsOf(scene, value) {
  const times = [0, ...new Set(scene.changes.map((change) => change.at))];
  return times.map((at) => [at / 1e6, value(valuesAt(scene, at))]);
}

/** The bandwidth-delay product in full packets of 1514 bytes. */
export const bdp = ({ rate, rtt }) => (rate * rtt) / 1e6 / (1514 * 8);
