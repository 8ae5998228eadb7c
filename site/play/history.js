// Time series of flows and of the link so far, by the layout of crates/knee-net/src/output.rs.

const SAMPLE = 64;
const LINK = 48;
/** Intervals over which rates are averaged: in one of 20 ms there are few packets. */
const SMOOTH = 5;

/** Phases of loss recovery, in the order of `SampleRow::state`. */
export const RECOVERY = ["", "disorder", "reducing", "loss recovery", "after a timeout"];

export class History {
  /** Takes `flows` flows, and the link with the number `which`. */
  constructor(flows, which = 0) {
    this.which = which;
    this.flows = Array.from({ length: flows }, () => ({ t: [], rate: [], raw: [], rtt: [], cwnd: [], flight: [], state: [], lost: [] }));
    this.link = { t: [], backlog: [], drops: [], marks: [], delay: [], used: [] };
    this.flight = { t: [], packets: [] };
  }

  /** Adds new rows, of which flows' come before the link's for each interval. */
  add(samples, links) {
    const rows = new DataView(samples);
    for (let at = 0; at < samples.byteLength; at += SAMPLE) {
      const flow = this.flows[rows.getUint32(at + 8, true)];
      const t = rows.getFloat64(at, true);
      flow.t.push(t);
      flow.raw.push(rows.getFloat32(at + 20, true));
      const last = flow.raw.slice(-SMOOTH);
      flow.rate.push(last.reduce((sum, x) => sum + x, 0) / last.length);
      flow.rtt.push(rows.getFloat32(at + 28, true));
      flow.cwnd.push(rows.getFloat32(at + 44, true));
      flow.flight.push(rows.getFloat32(at + 48, true));
      flow.state.push(rows.getUint32(at + 12, true));
      flow.lost.push(rows.getUint32(at + 56, true));
      const { flight } = this;
      if (flight.t.at(-1) !== t) {
        flight.t.push(t);
        flight.packets.push(0);
      }
      flight.packets[flight.packets.length - 1] += flow.flight.at(-1);
    }
    const of = new DataView(links);
    for (let at = 0; at < links.byteLength; at += LINK) {
      const { link } = this;
      if (of.getUint32(at + 16, true) !== this.which) continue;
      link.t.push(of.getFloat64(at, true));
      link.backlog.push(of.getUint32(at + 20, true));
      link.delay.push(of.getFloat32(at + 24, true));
      link.drops.push(of.getUint32(at + 32, true));
      link.marks.push(of.getUint32(at + 36, true));
      link.used.push(of.getFloat32(at + 40, true));
    }
  }
}

/** Packets that the engine told of: `[{ at (ns), seq, flow, what, marked }]`. */
export function packetsOf(buffer) {
  const rows = new DataView(buffer);
  return Array.from({ length: buffer.byteLength / 16 }, (_, i) => {
    const what = rows.getUint32(i * 16 + 12, true);
    return { at: rows.getFloat64(i * 16, true), seq: rows.getUint32(i * 16 + 8, true), flow: what & 0xffff, what: what >> 16 & 0xff, marked: what >> 24 & 1 };
  });
}

/** Index of the first of `times` that is not before `t`. */
export function indexAt(times, t) {
  let low = 0;
  for (let high = times.length; low < high;) {
    const middle = low + high >> 1;
    if (times[middle] < t) low = middle + 1;
    else high = middle;
  }
  return low;
}
