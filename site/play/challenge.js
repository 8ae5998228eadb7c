// "Be the controller": the pointer is the sending rate, on a network whose rate changes.
import { sceneOf } from "./scene.js";

const SECONDS = 20;

/** The network of the challenge; `cc` sends. The rate goes up and down, so that nobody can keep still. */
export const network = (cc) => sceneOf({
  rate: 20e6, rtt: 40e3, buffer: 150, duration: SECONDS * 1e6, flows: [{ cc, start: 0, stop: null, rtt: null, quic: false }],
  changes: [[4, 8e6], [8, 15e6], [11, 5e6], [14, 25e6], [17, 12e6]].map(([at, rate]) => ({ at: at * 1e6, to: { rate } })),
});

/** The highest rate that can be pointed at, bit/s. */
export const MOST = 30e6;
export const RIVALS = ["cubic", "bbr", "lola"];

/** The mean rate of the network, bit/s. */
function capacity({ rate, changes, duration }) {
  let [sum, at, now] = [0, 0, rate];
  for (const change of [...changes, { at: duration, to: {} }]) {
    sum += now * (change.at - at);
    [at, now] = [change.at, change.to.rate ?? now];
  }
  return sum / duration;
}

/**
 * The score of the figures of a run: 100 times Kleinrock's power, the share of the capacity that arrived times base RTT
 * over mean RTT. A link that is full without a queue has 100.
 */
export function score(figures, played) {
  const [flow] = figures.flows;
  const used = Math.min(1, (flow.goodput_mbps * 1e6 * 1514) / 1448 / capacity(played));
  const delay = flow.rtt_mean_ms ?? Infinity;
  return { used, delay, lost: flow.lost_packets, score: Math.round((100 * used * played.rtt) / 1e3 / delay) };
}
