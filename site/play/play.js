// The page: controls, time, and what is drawn when.
import { MOST, network, RIVALS, score } from "./challenge.js";
import { History, indexAt } from "./history.js";
import { colourOf } from "./looks.js";
import { asCount, asFigure, asPercent, asRate, asTime, nameOf, titleOf } from "./numbers.js";
import { bdp, EXPERIMENTS, fromHash, moved, place, sceneOf, stepsOf, toHash, valuesAt } from "./scene.js";
import { Stage } from "./stage.js";
import { explain, sentence, Story } from "./story.js";
import { Phases, scaleOf, Strip } from "./strips.js";

const $ = (id) => document.getElementById(id);
const VIEWS = ["network", "figures", "throughput", "rtt", "cwnd"];
/** How long a run takes to watch at the speed of the beginning, s. */
const WATCHED = 60;
/** Dots go round where an RTT takes longer than this to watch, s. */
const WATCHABLE = 0.12;
/** Largest scenario file that is read, bytes. */
const LARGEST = 1 << 20;
/** A control that is moved on within this time is one change, us. */
const ONE_CHANGE = 200e3;

// The engine

class Calls {
  constructor(bytes) {
    const text = document.getElementById("worker").textContent;
    this.worker = new Worker(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
    this.open = new Map();
    this.number = 0;
    this.onframe = () => {};
    this.worker.onmessage = ({ data }) => {
      if (data.call === undefined) return this.onframe(data);
      const { resolve, reject } = this.open.get(data.call);
      this.open.delete(data.call);
      return data.kind === "refused" ? reject(new Error(data.message)) : resolve(data);
    };
    this.ready = this.ask("load", { bytes });
  }

  post(kind, told) {
    this.worker.postMessage({ kind, ...told });
  }

  /** Asks for something that has one answer. */
  ask(kind, told) {
    this.number += 1;
    const call = this.number;
    return new Promise((resolve, reject) => {
      this.open.set(call, { resolve, reject });
      this.post(kind, { call, ...told });
    });
  }
}

function engineBytes() {
  const text = atob($("engine").textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// State. Times of the simulation in ns where the engine tells them, in us in a scene.

const state = {
  scene: null, id: 0, now: 0, clock: 0, playing: false, placed: 0, speed: 1, waiting: false, ended: null, dirty: null,
  history: null, story: null, hover: null, game: null, rate: null, changed: null, listing: null, frames: [],
  // A scenario file that is only shown: `{ text, name, reason, links, link, buffer }`.
  file: null,
};
/** The scenario that the engine runs. */
const request = () => (state.file ? { file: state.file.text } : { scene: state.scene });
let calls;
let aside;
const stage = new Stage($("stage"));
const strips = [
  new Strip($("throughput"), { read: "rate", least: (scene) => scene.rate / 4e6, limits: (scene) => [{ steps: stepsOf(scene, ({ rate }) => rate / 1e6), label: "rate of the link", dash: [5, 4] }] }),
  new Strip($("rtt"), { read: "rtt", least: (scene) => scene.rtt / 1e3, limits: (scene) => [{ steps: stepsOf(scene, ({ rtt }) => rtt / 1e3), label: "base RTT", dash: [5, 4] }] }),
  new Strip($("cwnd"), {
    read: "cwnd", total: true, least: (scene) => bdp(scene) / 2,
    limits: (scene) => [{ steps: stepsOf(scene, bdp), label: "BDP", dash: [5, 4] }, { steps: stepsOf(scene, (values) => bdp(values) + values.buffer), label: "BDP + buffer", dash: [2, 3] }],
  }),
];
const phases = new Phases($("phases"));

const phaseName = (cc, phase) => ({ hand: "steered", call: "sends" }[cc] ?? state.listing.cc.find(({ name }) => name === cc)?.phases[phase] ?? "");
const phaseOf = (flow, phase) => phaseName(state.scene.flows[flow].cc, phase);
/** The next microsecond in which nothing has happened yet, or that of a change which the run has not come to yet. */
const present = () => Math.max(Math.min(Math.floor(Math.max(state.now, state.clock) / 1e3) + 1, state.scene.duration - 1), state.placed);
/** The values that the controls show: those of a change count at once, also in a run that is paused. */
const controlled = () => valuesAt(state.scene, Math.max(state.clock / 1e3, state.placed));

function warn(text) {
  $("banner").hidden = !text;
  $("banner").querySelector("p").textContent = text ?? "";
}

// Time

const watchable = () => !state.file && valuesAt(state.scene, state.clock / 1e3).rtt / 1e6 / state.speed > WATCHABLE && bdp(valuesAt(state.scene, state.clock / 1e3)) < 1500;

/** Replays the scene up to `until` (ns), as soon as the engine is free. */
function replay(until) {
  state.dirty = { until: Math.max(0, Math.min(until, state.scene.duration * 1e3)) };
  state.ended = null;
  $("means").hidden = true;
}

function begin({ until }) {
  state.id += 1;
  state.waiting = true;
  state.target = until;
  calls.post("start", { id: state.id, scene: state.scene, request: request(), until, packets: watchable() });
}

function onframe(told) {
  if (told.id !== state.id) return;
  state.waiting = false;
  if (told.kind === "refused") {
    state.playing = false;
    warn(`This experiment does not run: ${told.message}. Change a control, or pick another experiment above.`);
    return;
  }
  if (told.whole) {
    state.history = new History(state.scene.flows.length, state.file?.link);
    state.story = new Story();
    for (const { at, to } of state.scene.changes) state.story.add(state.story.moved(at / 1e6, to));
  }
  const before = state.history.link.drops.length;
  state.history.add(told.samples, told.links);
  const drops = told.whole ? 0 : state.history.link.drops.slice(before).reduce((sum, n) => sum + n, 0);
  state.now = told.now;
  state.clock = told.status ? Math.max(told.status === 2 ? told.now : state.target, 0) : told.now;
  stage.take(told, drops, watchable(), state.file ? state.history.link.backlog.at(-1) ?? 0 : null);
  if (state.story.read(state.history, state.scene, phaseOf) || told.whole) state.storyMoved = true;
  if (told.status === 2) {
    state.ended = told.figures;
    state.playing = false;
    showMeans();
    if (state.game) endGame();
  }
}

let lastTick = 0;
function tick(wall) {
  const passed = Math.min(wall - lastTick, 100);
  lastTick = wall;
  if (state.scene && !state.waiting) {
    if (state.dirty) {
      begin(state.dirty);
      state.dirty = null;
    } else if (state.playing && !state.ended) {
      const until = state.clock + passed * 1e6 * state.speed;
      state.target = until;
      if (until < state.now && !state.game) state.clock = until;
      else {
        state.waiting = true;
        calls.post("frame", { id: state.id, until, packets: watchable(), hand: state.game ? steer() : null });
      }
    }
  }
  // A flow that was removed is in what is drawn until the run has been repeated without it.
  if (state.history && state.history.flows.length <= state.scene.flows.length) draw(passed, wall);
  requestAnimationFrame(tick);
}

// Drawing

function range() {
  const end = state.scene.duration / 1e6;
  if (state.game) return [0, end];
  const now = state.clock / 1e9;
  const width = Number($("window").value) || end;
  // It fills from the left; slow motion shows less, so that something moves.
  const seen = Math.min(Math.max(now, 1), Math.max(width * Math.min(1, state.speed * 5), 0.2), width, end);
  const to = Math.max(now, seen);
  return [to - seen, to];
}

let lastTexts = 0;
let lastLines = 0;
function draw(passed, wall) {
  const { scene, history, clock } = state;
  const values = valuesAt(scene, clock / 1e3);
  const t = clock / 1e9;
  const active = history.flows.map((flow, index) => ({
    index, rate: flow.rate.at(-1), rtt: flow.rtt.at(-1), state: flow.state.at(-1),
    running: t * 1e6 >= scene.flows[index].start && t * 1e6 < (scene.flows[index].stop ?? Infinity),
  }));
  const rtts = active.filter(({ running, rtt }) => running && rtt > 0).map(({ rtt }) => rtt);
  const rtt = rtts.reduce((sum, x) => sum + x, 0) / (rtts.length || 1);
  stage.draw({ now: clock, values, flows: scene.flows, active, drawn: watchable(), rtt, sinceLast: passed, speed: state.playing ? state.speed : 0, file: state.file });
  // Lines need no more than 30 pictures a second.
  if (wall - lastLines > 28) {
    lastLines = wall;
    drawLines(history, scene);
  }
  if (state.playing) state.frames.push(wall);
  if (state.frames.length > 600) state.frames.splice(0, 300);
  if (wall - lastTexts < 160) return;
  lastTexts = wall;
  drawTexts(values, active);
}

function drawLines(history, scene) {
  const shown = { history, scene, range: range(), hover: state.hover, phaseOf };
  strips.forEach((strip, i) => strip.draw({ ...shown, events: i === 0, ...(i === 0 && state.game ? { fixed: MOST / 1e6, pointed: state.rate / 1e6 } : {}) }));
  phases.draw(shown);
}

const setText = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

function asClock(s) {
  const digits = state.speed < 0.02 ? 5 : state.speed < 0.2 ? 4 : 2;
  return `${s.toFixed(digits)} s`;
}

function drawTexts(values, active) {
  const { scene, clock } = state;
  setText($("clock"), asClock(clock / 1e9) + (innerWidth < 600 ? "" : ` of ${scene.duration / 1e6}`));
  if (document.activeElement !== $("time") || !state.scrubbing) $("time").value = String(Math.round((clock / 1e3 / scene.duration) * 1000));
  const button = $("play");
  const icon = state.playing ? "❚❚" : state.ended ? "⟲" : "▶";
  setText(button, icon);
  button.setAttribute("aria-label", state.playing ? "Pause" : state.ended ? "Start again" : "Play");
  showControls(controlled());
  active.forEach(({ index, rate, rtt, state: phase, running }) => {
    const item = $("flows").children[index];
    if (!item) return;
    item.classList.toggle("ended", !running);
    const { start, cc } = scene.flows[index];
    const waits = clock / 1e3 < start;
    setText(item.querySelector(".told"), running && rate >= 0 ? `${rate.toFixed(rate < 10 ? 2 : 1)} Mbit/s` : "");
    let text = waits ? `starts at ${asTime(start)}` : "has stopped";
    if (running && phase !== undefined) {
      const name = phaseName(cc, phase & 0xff);
      const recovery = phase >> 8 & 0xff;
      text = `${recovery >= 3 ? "loss recovery" : name.replaceAll("_", " ")}${rtt > 0 ? ` · RTT ${asTime(rtt * 1e3)}` : ""}`;
      item.querySelector(".phase").title = explain(cc, name, recovery);
    } else if (running) text = "connects";
    setText(item.querySelector(".phase"), text);
  });
  if (state.storyMoved) drawStory();
}

/** The figures of a run that has ended. */
function showMeans() {
  const { scene, ended } = state;
  $("means").hidden = false;
  $("copy-means").textContent = "Copy";
  $("means").querySelector("tbody").replaceChildren(...ended.flows.map((flow, i) => {
    const line = document.createElement("tr");
    const chip = document.createElement("i");
    chip.style.background = colourOf(i);
    const name = document.createElement("th");
    name.append(chip, `${i + 1} ${titleOf(scene.flows[i])}`);
    const figures = [flow.goodput_mbps, flow.rtt_mean_ms, flow.queue_delay_mean_ms].map(asFigure);
    line.append(name, ...[...figures, flow.lost_packets].map((text) => Object.assign(document.createElement("td"), { textContent: String(text) })));
    return line;
  }));
}

async function copyMeans() {
  const table = $("means").querySelector("table");
  getSelection().selectAllChildren(table);
  const text = [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent).join("\t")).join("\n");
  await navigator.clipboard?.writeText(text).then(() => { $("copy-means").textContent = "Copied"; }, () => {});
}

function drawStory() {
  state.storyMoved = false;
  const { told } = state.story;
  const until = state.clock / 1e9 + 1e-9;
  const newest = told.filter(({ t }) => t <= until).sort((a, b) => b.t - a.t).slice(0, 40);
  const happens = newest.find(({ text }) => text);
  setText($("happens"), happens ? `${happens.t.toFixed(2)} s: ${sentence(happens, state.scene)}` : "Press play. The network is empty; the first packets are about to leave.");
  $("story").replaceChildren(...newest.map((event) => {
    const item = document.createElement("li");
    item.className = event.kind;
    const button = document.createElement("button");
    button.type = "button";
    button.title = "Go there";
    button.onclick = () => seek(event.t * 1e9 - 20e6);
    const time = document.createElement("time");
    time.textContent = `${event.t.toFixed(2)} s`;
    const text = document.createElement("span");
    if (event.flow !== null) {
      const chip = document.createElement("i");
      chip.style.background = colourOf(event.flow);
      text.append(chip);
    }
    const strong = document.createElement("b");
    strong.textContent = event.title;
    text.append(strong, ` ${event.text}`);
    button.append(time, text);
    item.append(button);
    return item;
  }));
}

// Controls. Sliders are logarithmic; each has the values of one key of a scene.

const round = (x, digits = 2) => Number(x.toPrecision(digits));
const SLIDERS = {
  rate: { id: "rate", shown: asRate },
  rtt: { id: "base", shown: asTime },
  buffer: { id: "buffer", shown: (n) => asCount(n, "packet") },
  loss: { id: "loss", shown: asPercent, zero: 1e-4 },
};

function valueOf(key, position) {
  const [low, high] = state.listing.ranges[key];
  const { zero } = SLIDERS[key];
  if (zero) return position === 0 ? 0 : round(zero * (high / zero) ** (position / 1000));
  return Math.max(low, Math.min(high, Math.round(round(low * (high / low) ** (position / 1000)))));
}

function positionOf(key, value) {
  const [low, high] = state.listing.ranges[key];
  const from = SLIDERS[key].zero ?? low;
  return value <= 0 ? 0 : Math.round((1000 * Math.log(value / from)) / Math.log(high / from));
}

function showControls(values) {
  for (const [key, { id, shown }] of Object.entries(SLIDERS)) {
    setText($(`${id}-out`), shown(values[key]));
    $(id).setAttribute("aria-valuetext", shown(values[key]));
    if (state.dragging !== key) $(id).value = String(positionOf(key, values[key]));
  }
}

/** Forgets what was to come after the present: somebody does something else now. */
function forgetFuture() {
  const { scene } = state;
  const now = present();
  scene.changes = scene.changes.filter(({ at }) => at <= now);
}

/** Whether the run has come to its end, or is being repeated up to there: then only a change of all of it shows. */
const atEnd = () => Boolean(state.ended) || (state.dirty?.until ?? state.target) >= state.scene.duration * 1e3;

/** A control is moved to a value: before the start and after the end that is how it begins, in between a change. */
function move(key, value) {
  const { scene } = state;
  if (controlled()[key] === value && state.changed?.key !== key) return;
  forgetFuture();
  if (state.clock === 0) scene[key] = value;
  else if (atEnd()) {
    scene[key] = value;
    for (const { to } of scene.changes) delete to[key];
    scene.changes = scene.changes.filter(({ to }) => Object.keys(to).length);
  }
  else {
    state.placed = present();
    place(scene, key, value, state.placed, state.changed?.key === key ? ONE_CHANGE : 0);
    state.changed = { key };
  }
  edited();
}

/** The scene is another one now: repeats it up to the present, and changes the address. */
function edited(until = atEnd() ? state.scene.duration * 1e3 : state.clock) {
  warn(null);
  replay(until);
  clearTimeout(state.writing);
  state.writing = setTimeout(writeAddress, 250);
}

function writeAddress() {
  // No address says a file that is only shown.
  if (state.file) return history.replaceState(null, "", location.pathname + location.search);
  const more = document.body.classList.contains("embedded") ? { view: document.body.dataset.view } : {};
  return history.replaceState(null, "", toHash(state.scene, more) === "#" ? location.pathname + location.search : toHash(state.scene, more));
}

function seek(until) {
  Object.assign(state, { changed: null, placed: 0 });
  replay(until);
}

function drawFlows() {
  const { scene, listing } = state;
  $("flows").replaceChildren(...scene.flows.map((flow, i) => {
    const item = document.createElement("li");
    const chip = document.createElement("i");
    chip.style.background = colourOf(i);
    const pick = algorithms(flow.cc === "hand");
    pick.setAttribute("aria-label", `Algorithm of flow ${i + 1}`);
    // Datagrams of a file, by their kind.
    if (state.file && ![...pick.options].some(({ value }) => value === flow.cc)) pick.append(new Option(flow.cc, flow.cc));
    pick.value = flow.cc;
    pick.title = listing.cc.find(({ name }) => name === flow.cc)?.about ?? "";
    pick.onchange = () => {
      flow.cc = pick.value;
      flow.quic &&= overQuic(flow.cc);
      drawFlows();
      edited();
    };
    const transport = transports(flow.cc);
    transport.setAttribute("aria-label", `Transport of flow ${i + 1}`);
    if (!transport.disabled) transport.value = flow.quic ? "quic" : "tcp";
    transport.onchange = () => {
      flow.quic = transport.value === "quic";
      drawFlows();
      edited();
    };
    const told = document.createElement("span");
    told.className = "told";
    const end = document.createElement("button");
    end.type = "button";
    end.textContent = "stop";
    end.title = "Stop this flow now; before it starts, or once it has stopped: remove it";
    end.setAttribute("aria-label", `Stop or remove flow ${i + 1}`);
    end.onclick = () => endFlow(i);
    const phase = document.createElement("span");
    phase.className = "phase";
    item.append(chip, pick, transport, told, end, phase);
    return item;
  }));
  $("legend").replaceChildren(...scene.flows.map((flow, i) => {
    const span = document.createElement("span");
    const chip = document.createElement("i");
    chip.style.background = colourOf(i);
    span.append(chip, `${i + 1} ${titleOf(flow)}`);
    return span;
  }));
  $("add").disabled = scene.flows.length >= listing.ranges.flows[1];
}

function endFlow(i) {
  const { scene } = state;
  const at = present();
  const flow = scene.flows[i];
  const running = flow.start < at && (flow.stop ?? Infinity) > at;
  if (running && state.clock > 0 && !atEnd()) flow.stop = at;
  else if (scene.flows.length > 1) scene.flows.splice(i, 1);
  else return warn("An experiment has at least one flow. Add another one first.");
  drawFlows();
  return edited();
}

/** The choice of the transport of a new flow, which stays where the algorithm has it. */
function drawTransport() {
  const before = $("new-transport").value;
  const pick = Object.assign(transports($("new-cc").value), { id: "new-transport" });
  pick.setAttribute("aria-label", "Transport of a new flow");
  if (!pick.disabled && before) pick.value = before;
  $("new-transport").replaceWith(pick);
}

/** Whether flows of this name can go over QUIC: calls are datagrams of UDP, and a flow is steered over TCP. */
const overQuic = (cc) => state.listing.cc.some(({ name }) => name === cc);

/** A choice of the transport, of an algorithm that has one. */
function transports(cc) {
  const pick = document.createElement("select");
  pick.className = "transport";
  if (overQuic(cc)) pick.append(new Option("TCP", "tcp"), new Option("QUIC", "quic"));
  else pick.append(new Option(cc === "hand" ? "TCP" : "UDP"));
  pick.disabled = pick.options.length === 1;
  return pick;
}

function algorithms(hand) {
  const pick = document.createElement("select");
  for (const family of [...new Set(state.listing.cc.map((each) => each.family))]) {
    const group = document.createElement("optgroup");
    group.label = family;
    for (const each of state.listing.cc.filter((one) => one.family === family)) group.append(new Option(nameOf(each.name), each.name));
    pick.append(group);
  }
  pick.append(new Option(nameOf("call"), "call"));
  if (hand) pick.append(new Option("You", "hand"));
  return pick;
}

function showQueue() {
  const { scene, listing } = state;
  $("queue").value = scene.queue;
  $("ecn").checked = scene.ecn;
  const about = listing.queues.find(({ name }) => name === scene.queue)?.about ?? "";
  $("queue-about").textContent = about.replace(/^./, (first) => first.toUpperCase());
}

/** Shows a scene from its beginning, or from `until` (us) on; or a file that is only shown. */
function open(scene, { until = 0, playing = true, lead = "", file = null } = {}) {
  $("settings").disabled = $("share").disabled = Boolean(file);
  $("of-file").hidden = !file;
  $("of-file").textContent = file ? `The controls show ${file.links.length > 1 ? `the link ${file.links[file.link]}` : "the file"} and cannot be moved: ${file.reason}. Edit the file and open it again.` : "";
  Object.assign(state, { scene, file, playing, game: null, changed: null, placed: 0, clock: 0, now: 0, hover: null });
  document.body.classList.remove("playing");
  stage.clear();
  strips.forEach((strip) => Object.assign(strip, { top: 0 }));
  $("lead").textContent = lead;
  drawFlows();
  showQueue();
  replay(until * 1e3);
}

function setSpeed(position) {
  $("speed").value = String(position);
  state.speed = round(10 ** (position / 10));
  $("speed-out").textContent = `× ${state.speed >= 100 ? Math.round(state.speed) : state.speed}`;
  $("speed").setAttribute("aria-valuetext", `${state.speed} times real time`);
}

/** Sets the speed at which a run takes a minute, or to what an address asks for. */
function startSpeed(scene, asked = scene.duration / 1e6 / WATCHED) {
  setSpeed(Math.round(10 * Math.log10(Math.max(1e-3, Math.min(1e3, asked)))));
}

function playPause() {
  if (state.ended) {
    seek(0);
    state.playing = true;
  } else state.playing = !state.playing;
}

function stepOn() {
  if (state.waiting || state.ended) return;
  state.playing = false;
  state.waiting = true;
  // The time of a full packet on the wire.
  state.target = Math.max(state.clock, state.now) + (1514 * 8 * 1e9) / valuesAt(state.scene, state.clock / 1e3).rate;
  calls.post("frame", { id: state.id, until: state.target, packets: watchable(), hand: null });
}

/** Back by what a second of watching takes; while nothing plays, by ten packets. */
function stepBack() {
  const packets = (10 * 1514 * 8 * 1e9) / valuesAt(state.scene, state.clock / 1e3).rate;
  seek(state.clock - (state.playing ? state.speed * 1e9 : packets));
}

// The game

function steer() {
  const rate = round(state.rate, 2);
  const { scene } = state;
  const last = scene.hand.at(-1);
  if (last && last[1] === rate) return null;
  const at = present();
  if (last && last[0] >= at) return null;
  scene.hand.push([at, rate]);
  return [at, rate];
}

async function startGame() {
  $("game").close();
  open(network("hand"), { playing: true });
  state.rate = 5e6;
  state.game = { rivals: [] };
  state.speed = 1;
  setSpeed(0);
  document.body.classList.add("playing");
  $("lead").textContent = "You are the congestion control: point at a rate on the throughput figure, or use ↑ and ↓.";
  $("throughput").scrollIntoView({ block: "center", behavior: "smooth" });
  const { game } = state;
  aside ??= new Calls(engineBytes());
  for (const cc of RIVALS) {
    const { figures } = await aside.ask("whole", { id: cc, request: { scene: network(cc) } });
    game.rivals.push({ name: nameOf(cc), ...score(JSON.parse(figures), network(cc)) });
  }
  if (game.mine) showScores(game);
}

function endGame() {
  state.game.mine = { name: "You", mine: true, ...score(state.ended, state.scene) };
  if (state.game.rivals.length === RIVALS.length) showScores(state.game);
}

function showScores({ mine, rivals }) {
  document.body.classList.remove("playing");
  $("before").hidden = true;
  $("after").hidden = false;
  $("score").textContent = String(mine.score);
  $("go").textContent = "Again";
  const rows = [mine, ...rivals].sort((a, b) => b.score - a.score);
  $("after").querySelector("tbody").replaceChildren(...rows.map((row) => {
    const line = document.createElement("tr");
    if (row.mine) line.className = "you";
    const name = document.createElement("th");
    name.textContent = row.name;
    const cells = [row.score, asPercent(row.used), asTime(row.delay * 1e3), row.lost.toLocaleString("en")].map((text) => {
      const cell = document.createElement("td");
      cell.textContent = String(text);
      return cell;
    });
    line.append(name, ...cells);
    return line;
  }));
  const beaten = rivals.filter((rival) => rival.score < mine.score).map(({ name }) => name);
  $("verdict").textContent = beaten.length ? `You beat ${beaten.join(" and ")}. The figures behind this show how.` : "All three were better this time. Watch the RTT: once it rises, a queue has begun.";
  $("game").showModal();
}

function point(event) {
  if (!state.game || state.ended) return;
  const box = $("throughput").getBoundingClientRect();
  const part = 1 - (event.clientY - box.top - 8) / (box.height - 28);
  state.rate = Math.max(0.1e6, Math.min(1, part) * MOST);
}

// Wiring

function tipAt(event, canvas) {
  const tip = $("tip");
  const box = canvas.getBoundingClientRect();
  const at = scaleOf(box.width, range()).t(event.clientX - box.left);
  state.hover = at;
  const lines = [];
  if (canvas.id === "phases") {
    const found = phases.at(event.clientX - box.left, event.clientY - box.top);
    if (found) {
      const { cc } = state.scene.flows[found.flow];
      const name = phaseOf(found.flow, found.phase);
      lines.push(`Flow ${found.flow + 1}, ${nameOf(cc)}: ${found.recovery >= 3 ? "loss recovery" : name.replaceAll("_", " ")}. ${explain(cc, name, found.recovery)}`);
    }
  } else {
    const strip = strips.find((each) => each.canvas === canvas);
    const unit = { throughput: "Mbit/s", rtt: "ms", cwnd: "packets" }[canvas.id];
    state.history.flows.forEach((flow, i) => {
      const value = flow[strip.read][Math.min(indexAt(flow.t, at), flow.t.length - 1)];
      if (value >= 0 && at >= state.scene.flows[i].start / 1e6) lines.push(`${i + 1} ${titleOf(state.scene.flows[i])}: ${Number(value.toPrecision(3))} ${unit}`);
    });
    if (lines.length) lines.unshift(`${at.toFixed(2)} s`);
  }
  tip.hidden = !lines.length || Boolean(state.game && !state.ended);
  tip.replaceChildren(...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
  const card = $("figures").getBoundingClientRect();
  const x = event.clientX - card.left;
  tip.style.left = `${Math.max(4, Math.min(x + 14, card.width - 280))}px`;
  tip.style.top = `${event.clientY - card.top + 18}px`;
}

function hideTip() {
  $("tip").hidden = true;
  state.hover = null;
}

function wire() {
  for (const key of Object.keys(SLIDERS)) {
    const slider = $(SLIDERS[key].id);
    slider.oninput = () => {
      state.dragging = key;
      move(key, moved((at) => valueOf(key, at), (value) => positionOf(key, value), controlled()[key], Number(slider.value)));
    };
    slider.onchange = () => {
      Object.assign(state, { dragging: null, changed: null });
      // The next key may come before the next frame.
      showControls(controlled());
    };
  }
  $("queue").onchange = () => {
    state.scene.queue = $("queue").value;
    showQueue();
    edited();
  };
  $("ecn").onchange = () => {
    state.scene.ecn = $("ecn").checked;
    edited();
  };
  $("add").onclick = () => {
    const cc = $("new-cc").value;
    const quic = $("new-transport").value === "quic";
    state.scene.flows.push({ cc, start: state.clock === 0 || atEnd() ? 0 : present(), stop: null, rtt: null, quic });
    drawFlows();
    edited();
  };
  $("play").onclick = playPause;
  $("step").onclick = stepOn;
  $("back").onclick = stepBack;
  $("speed").oninput = () => setSpeed(Number($("speed").value));
  $("time").oninput = () => {
    state.scrubbing = true;
    seek((Number($("time").value) / 1000) * state.scene.duration * 1e3);
  };
  $("time").onchange = () => { state.scrubbing = false; };
  $("experiment").onchange = () => {
    const { scene, about } = EXPERIMENTS[Number($("experiment").value)] ?? EXPERIMENTS[0];
    warn(null);
    open(sceneOf(scene), { lead: about });
    startSpeed(state.scene);
    writeAddress();
  };
  for (const canvas of [...strips, phases].map((each) => each.canvas)) {
    canvas.addEventListener("pointermove", (event) => {
      if (canvas.id === "throughput") point(event);
      tipAt(event, canvas);
    });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("click", (event) => {
      if (state.game && !state.ended) return;
      const box = canvas.getBoundingClientRect();
      seek(scaleOf(box.width, range()).t(event.clientX - box.left) * 1e9);
    });
  }
  $("throughput").addEventListener("pointerdown", point);
  document.addEventListener("keydown", onKey);
  $("banner").querySelector("button").onclick = () => warn(null);
  $("challenge").onclick = () => {
    state.playing = false;
    Object.assign($("before"), { hidden: false });
    Object.assign($("after"), { hidden: true });
    $("go").textContent = "Start";
    $("game").showModal();
  };
  $("go").onclick = startGame;
  $("share").onclick = share;
  $("embed-view").onchange = share;
  $("export").onclick = exportFile;
  $("open").onclick = () => $("file").click();
  $("file").onchange = () => openFile($("file").files[0]).finally(() => { $("file").value = ""; });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    openFile(event.dataTransfer.files[0]);
  });
  $("copy-means").onclick = copyMeans;
  for (const button of document.querySelectorAll("[data-close]")) button.onclick = () => button.closest("dialog").close();
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.onclick = async () => {
      const area = $(button.dataset.copy);
      area.select();
      // Without permission the text is selected, to be copied by hand.
      await navigator.clipboard?.writeText(area.value).then(() => { button.textContent = "Copied"; }, () => {});
    };
  }
  addEventListener("hashchange", () => openAddress());
  document.addEventListener("visibilitychange", () => { lastTick = performance.now(); });
}

function onKey(event) {
  const writes = event.target.closest("select, textarea, dialog, input") && !(event.key === " " && event.target.type === "range");
  if (state.game && !state.ended && ["ArrowUp", "ArrowDown"].includes(event.key)) {
    state.rate = Math.max(0.1e6, Math.min(MOST, state.rate + (event.key === "ArrowUp" ? 1e6 : -1e6)));
    return event.preventDefault();
  }
  if (writes || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (event.target.closest("button") && [" ", "Enter"].includes(event.key)) return undefined;
  const act = {
    " ": playPause, ArrowRight: stepOn, ArrowLeft: stepBack, Home: () => seek(0),
    "+": () => setSpeed(Math.min(30, Number($("speed").value) + 5)), "-": () => setSpeed(Math.max(-30, Number($("speed").value) - 5)),
  }[event.key];
  if (!act) return undefined;
  act();
  return event.preventDefault();
}

function share() {
  const address = location.href.replace(/#.*/, "");
  $("link").value = address + toHash(state.scene);
  $("on-disk").hidden = location.protocol !== "file:";
  const view = $("embed-view").value;
  $("embed").value = `<iframe src="${address}${toHash(state.scene, { view })}" width="720" height="${{ network: 400, figures: 720 }[view] ?? 280}" style="border:0" title="knee play" loading="lazy"></iframe>`;
  if (!$("sharing").open) $("sharing").showModal();
}

async function exportFile() {
  try {
    const { toml } = await calls.ask("toml", { request: request() });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([toml], { type: "application/toml" })), download: state.file?.name ?? "experiment.toml" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  } catch (error) {
    warn(error.message);
  }
}

/** Shows the experiment of a scenario file. */
async function openFile(file) {
  if (!file) return;
  try {
    if (file.size > LARGEST) throw new Error(`it has ${asCount(file.size, "byte")}, and the page reads up to ${asCount(LARGEST, "byte")}`);
    const text = await file.text();
    const { scene, file: shown } = await calls.ask("open", { toml: text });
    warn(null);
    $("experiment").value = "";
    open(scene, { lead: `From ${file.name}`, file: shown && { ...shown, text, name: file.name } });
    startSpeed(scene);
    writeAddress();
  } catch (error) {
    const said = error.message.replace(/^the file(?=:)/, file.name);
    warn(said.startsWith(`${file.name}:`) ? said : `${file.name} is not shown: ${said}. Run it with knee run.`);
  }
}

function openAddress() {
  let told;
  warn(null);
  try {
    told = fromHash(location.hash);
  } catch (error) {
    warn(`This link is no experiment: ${error.message}. The page starts with its usual one; the menu has others.`);
    told = { scene: sceneOf({}), more: {} };
  }
  const { view, t, speed } = told.more;
  const embedded = VIEWS.includes(view);
  document.body.classList.toggle("embedded", embedded);
  if (embedded) document.body.dataset.view = view;
  startSpeed(told.scene, speed > 0 ? speed : undefined);
  const shown = EXPERIMENTS.findIndex(({ scene }) => toHash(sceneOf(scene)) === toHash(told.scene));
  $("experiment").value = shown < 0 ? "" : String(shown);
  open(told.scene, { until: Math.min(t ?? 0, told.scene.duration), playing: t === undefined, lead: embedded || t !== undefined ? "" : EXPERIMENTS[shown]?.about ?? "" });
}

async function main() {
  if (typeof WebAssembly === "undefined" || typeof Worker === "undefined") {
    throw new Error("This page runs a simulator in WebAssembly, which this browser does not have or does not allow. Open it in a current Firefox, Chrome, Edge or Safari, and allow WebAssembly for it where a setting forbids it.");
  }
  calls = new Calls(engineBytes());
  calls.onframe = onframe;
  state.listing = (await calls.ready).listing;
  EXPERIMENTS.forEach(({ name }, i) => $("experiment").append(new Option(name, String(i))));
  $("experiment").prepend(new Option("your own", ""));
  state.listing.queues.forEach(({ name }) => $("queue").append(new Option(name, name)));
  $("new-cc").replaceWith(Object.assign(algorithms(false), { id: "new-cc", value: "cubic" }));
  $("new-cc").setAttribute("aria-label", "Algorithm of a new flow");
  $("new-cc").onchange = drawTransport;
  drawTransport();
  wire();
  openAddress();
  requestAnimationFrame((wall) => {
    lastTick = wall;
    tick(wall);
  });
}

// For tests, and for those who like to look inside.
const knee = {
  state,
  /** Runs `{ spec }` or `{ scene }` to its end. */
  whole: (request, rows = false) => calls.ask("whole", { id: "whole", request, rows }),
  tomlOf: (scene) => calls.ask("toml", { request: { scene } }).then(({ toml }) => toml),
  toml: () => calls.ask("toml", { request: request() }).then(({ toml }) => toml),
  open, openFile, seek, setSpeed, toHash, fromHash,
};
globalThis.knee = knee;

main().catch((error) => {
  document.querySelector("main").replaceChildren(Object.assign(document.createElement("p"), { className: "fatal", textContent: error.message }));
  document.querySelectorAll("nav, footer").forEach((part) => part.remove());
});
