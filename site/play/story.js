// Says in words what happens, where it happens.
import { RECOVERY } from "./history.js";
import { asCount, asPercent, asRate, asTime, titleOf } from "./numbers.js";

const AVOIDANCE = "It grows slowly now and looks for the edge of what the path carries.";

/** What a phase is, by algorithm; then those that many algorithms share. */
const PHASES = {
  "lola/cubic_increase": "No queue is felt, so the window grows along a cubic curve.",
  "lola/fair_flow_balancing": "A queue has begun: every flow now adds packets in step, so that all come to hold the same share of it.",
  "lola/cwnd_hold": "The queueing delay is at its target, so the window stays as it is until all flows have felt it.",
  "lola/tailored_decrease": "It gives up just as much as is in the queue, so that the queue drains and the link stays busy.",
  "bbr/startup": "It doubles its rate each RTT until the delivery rate no longer grows.",
  "bbr/drain": "It sends more slowly than the link for a moment, to empty the queue that startup has built.",
  "bbr/probe_bw": "It sends at the bandwidth that it has measured, 25 % faster for one RTT in eight to see whether there is more.",
  "bbr/probe_rtt": "It cuts its window to four packets for 200 ms, to see the RTT without its own queue.",
  "bbr3/startup": "It doubles its rate each RTT until the delivery rate no longer grows.",
  "bbr3/drain": "It sends more slowly than the link for a moment, to empty the queue that startup has built.",
  "bbr3/probe_bw_down": "It sends a little less than it has measured, so that its queue empties and others find room.",
  "bbr3/probe_bw_cruise": "It sends at the bandwidth that it has measured.",
  "bbr3/probe_bw_refill": "It fills the path again before it probes for more.",
  "bbr3/probe_bw_up": "It sends 25 % faster, to see whether there is more bandwidth.",
  "bbr3/probe_rtt": "It halves its packets in flight for a moment, to see the RTT without its own queue.",
  "copa/default": "It steers towards a rate of one packet over the queueing delay, and oscillates around an almost empty queue.",
  "copa/competitive": "Others keep the queue full, so it takes part in their game and is more aggressive.",
  "ledbat/below_target": "The queueing delay is below its target: it grows.",
  "ledbat/above_target": "The queueing delay is above its target: it yields.",
  "vivace/starting": "It doubles its rate as long as its utility grows.",
  "vivace/learning": "It tries a little more and a little less, and compares the utility of both.",
  "vivace/moving": "It moves its rate in the direction that was better.",
  "call/sends": "It sends video, and lowers its rate when the delay grows (GCC).",
  "hand/steered": "It sends at the rate at which you point.",
  slow_start: "The window doubles each RTT until a loss or a rising delay ends it.",
  congestion_avoidance: AVOIDANCE,
  "cubic/congestion_avoidance": "The window follows a cubic curve: fast, then flat near where the last loss was, then fast again.",
  "reno/congestion_avoidance": "The window grows by one packet each RTT, until a packet is lost.",
  "vegas/congestion_avoidance": "It keeps two to four packets of its own in the queue.",
  "dctcp/congestion_avoidance": "It reduces its window by the share of packets that came back marked.",
  inference: "It has felt other traffic and keeps back.",
  initial: "It looks for the path's bandwidth.",
  recovery: "It has seen congestion and lets the queue empty.",
  cruising: "It sends at the rate that it has found.",
  pushing: "It sends faster for an RTT, to see whether there is more.",
};

const RECOVERIES = {
  2: "A mark has told it of congestion: it reduces its window over one RTT.",
  3: "It has learned of lost packets: it sends them again and reduces its window.",
  4: "No acknowledgement came in time. It starts again from one packet.",
};

/** What a phase of an algorithm, or a state of loss recovery, is. */
export function explain(cc, phase, recovery) {
  if (cc === "hand" && recovery >= 2) return "You sent faster than the link carries: packets were lost, and are sent again.";
  if (RECOVERIES[recovery]) return RECOVERIES[recovery];
  return PHASES[`${cc}/${phase}`] ?? PHASES[phase] ?? "";
}

const LONGEST = 250;
/** Drops closer together than this are told as one, s. */
const TOGETHER = 0.3;

/** The events of a run so far: `[{ t, flow, title, text, kind }]`. */
export class Story {
  constructor() {
    this.told = [];
    this.seen = [];
    this.linkSeen = 0;
    this.droppedAt = -1;
    this.markedAt = -1;
  }

  add(event) {
    this.told.push(event);
    if (this.told.length > LONGEST) this.told.shift();
  }

  /** Reads on in `history`. */
  read(history, scene, phaseOf) {
    const added = [];
    history.flows.forEach((flow, i) => {
      const { cc } = scene.flows[i];
      for (let k = this.seen[i] ?? 0; k < flow.t.length; k += 1) {
        const [now, before] = [flow.state[k], k ? flow.state[k - 1] : -1];
        if ((now & 0xffff) === (before & 0xffff)) continue;
        const [phase, recovery, was] = [now & 0xff, now >> 8 & 0xff, before < 0 ? 0 : before >> 8 & 0xff];
        const t = k ? flow.t[k - 1] : scene.flows[i].start / 1e6;
        const name = phaseOf(i, phase);
        if (recovery >= 2 && recovery !== was) added.push({ t, flow: i, kind: recovery === 2 ? "mark" : "loss", title: RECOVERY[recovery], text: explain(cc, name, recovery) });
        else if (before < 0 || (before & 0xff) !== phase) added.push({ t, flow: i, kind: "phase", title: name.replaceAll("_", " "), text: explain(cc, name, 0) });
      }
      this.seen[i] = flow.t.length;
    });
    const { link } = history;
    for (let k = this.linkSeen; k < link.t.length; k += 1) {
      if (link.drops[k] && link.t[k] - this.droppedAt > TOGETHER) added.push(this.drop(link, k, scene));
      if (link.drops[k]) this.droppedAt = link.t[k];
      if (link.marks[k] && link.t[k] - this.markedAt > 5 * TOGETHER) added.push({ t: link.t[k], flow: null, kind: "mark", title: "marks", text: `${scene.queue} marks packets CE instead of dropping them: receivers echo the marks, and senders slow down without a loss.` });
      if (link.marks[k]) this.markedAt = link.t[k];
    }
    this.linkSeen = link.t.length;
    added.sort((a, b) => a.t - b.t).forEach((event) => this.add(event));
    return added.length > 0;
  }

  drop(link, k, scene) {
    const full = link.backlog[k] >= 0.8 * Math.max(...link.backlog.slice(Math.max(k - 3, 0), k + 1), 1) && link.backlog[k] > 3;
    const tail = ["pfifo", "fq"].includes(scene.queue);
    let text = `${scene.queue} drops packets early, before the buffer is full, so that the queue stays short.`;
    if (tail) text = full ? "The buffer is full: what arrives now has no room." : "Packets are lost at random, although the buffer has room.";
    return { t: link.t[k], flow: null, kind: "loss", title: asCount(link.drops[k], "packet") + " dropped", text };
  }

  /** Tells of a control that was moved. */
  moved(t, to) {
    const [[key, value]] = Object.entries(to);
    const told = { rate: ["rate", asRate], rtt: ["base RTT", asTime], buffer: ["buffer", (n) => asCount(n, "packet")], loss: ["random loss", asPercent] }[key];
    return { t, flow: null, kind: "change", title: `${told[0]} is now ${told[1](value)}`, text: "" };
  }
}

/** One event as a sentence. */
export function sentence({ flow, title, text }, scene) {
  const who = flow === null ? "" : `Flow ${flow + 1} (${titleOf(scene.flows[flow])}): `;
  return `${who}${title}. ${text}`.replace(/^./, (first) => first.toUpperCase());
}
