// The engine in a worker of its own, so that the page draws while it computes.
import { Engine, TABLE } from "./engine.js";

/** A frame is computed for no longer than this, ms; what is missing then comes with the next. */
const BUDGET = 20;
/** Steps between two looks at the clock. */
const STEPS = 20_000;

let engine = null;
let latest = 0;
let read = {};

const pause = () => new Promise((go) => { const { port1, port2 } = new MessageChannel(); port1.onmessage = go; port2.postMessage(0); });

/** What is new in a table. */
function fresh(name) {
  const bytes = engine.table(TABLE[name], read[name]);
  read[name] += bytes.byteLength;
  return bytes;
}

function tell(id, status, whole) {
  const told = { kind: "frame", id, whole, status, now: engine.calls.now(), held: engine.table(TABLE.held), packets: engine.table(TABLE.packets) };
  engine.calls.forget_packets();
  for (const name of ["samples", "links"]) told[name] = fresh(name);
  if (status === 2) told.figures = JSON.parse(engine.finish());
  postMessage(told, [told.held, told.packets, told.samples, told.links]);
}

/** Lets time pass until `until`; stops early where something newer has come. */
async function runTo(id, until, budget) {
  const begun = performance.now();
  let breath = begun;
  for (;;) {
    const status = engine.calls.advance(until, STEPS);
    const now = performance.now();
    if (status || now - begun > budget) return status;
    if (now - breath > 30) {
      await pause();
      if (id !== latest) return null;
      breath = performance.now();
    }
  }
}

const DO = {
  async load({ bytes }) {
    engine = await Engine.load(bytes);
    return { listing: engine.list() };
  },

  /** Begins a scene or a file anew and replays it until `until`. */
  async start({ id, scene, request, until, packets }) {
    latest = id;
    read = { samples: 0, links: 0 };
    engine.start(request);
    engine.calls.record_packets(0);
    // Packets under way left within the last RTT.
    const recent = Math.max(...[scene.rtt, ...scene.changes.map(({ to }) => to.rtt ?? 0)]) * 1e3;
    if (packets && until > recent && await runTo(id, until - recent, Infinity) === null) return;
    engine.calls.record_packets(packets ? 1 : 0);
    const status = await runTo(id, until, Infinity);
    if (status !== null) tell(id, status, true);
  },

  async frame({ id, until, packets, hand }) {
    if (id !== latest) return;
    if (hand) engine.calls.steer(hand[0] * 1e3, hand[1]);
    engine.calls.record_packets(packets ? 1 : 0);
    const status = await runTo(id, until, BUDGET);
    if (status !== null) tell(id, status, false);
  },

  /** Runs a request to its end; gives the figures, the rows where they are wanted, and how long it took. */
  async whole({ id, request, rows }) {
    latest = id;
    const begun = performance.now();
    engine.start(request);
    while (engine.calls.advance(Infinity, 1e9) !== 2) await pause();
    const figures = engine.finish();
    const told = { figures, ms: performance.now() - begun };
    if (rows) for (const name of ["samples", "links", "events", "completions", "delays", "distributions"]) told[name] = engine.table(TABLE[name]);
    return told;
  },

  async toml({ request }) {
    return { toml: engine.export(request) };
  },

  async open({ toml }) {
    return engine.open(toml);
  },
};

// One after the other: a frame does not begin within a replay; a newer replay ends an older one.
let last = Promise.resolve();
onmessage = ({ data }) => {
  if (data.kind === "start") latest = data.id;
  last = last.then(async () => {
    try {
      const told = await DO[data.kind](data);
      if (told) postMessage({ kind: "done", call: data.call, ...told });
    } catch (error) {
      let message = error.message;
      if (error instanceof WebAssembly.RuntimeError) {
        message = `the simulator failed: ${engine.text()}`;
        await engine.renew();
      }
      postMessage({ kind: "refused", call: data.call, id: data.id, message });
    }
  });
};
