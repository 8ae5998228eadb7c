// The network: senders, the queue with its packets, the link, and what is on its way round.
import { packetsOf } from "./history.js";
import { colourOf, colours, FONT, sharp, SMALL } from "./looks.js";
import { asRate, asTime, nameOf } from "./numbers.js";
import { bdp } from "./scene.js";

const DELIVERED = 1;
const DROPPED = 2;
/** How long a dropped packet is seen to fall, ms of the reader's time, and how many are at once. */
const FALL = 900;
const FALLING = 80;
/** More dots than this on the way round are drawn as a band. */
const DOTS = 1500;

/** Writes over what is drawn: a rim of paper keeps the text apart from it. */
function label(c, text, x, y) {
  c.strokeStyle = colours().paper;
  c.lineWidth = 4;
  c.lineJoin = "round";
  c.strokeText(text, x, y);
  c.fillText(text, x, y);
}

export class Stage {
  constructor(canvas) {
    this.canvas = canvas;
    this.clear();
  }

  clear() {
    this.held = [];
    this.flying = [];
    this.falling = [];
    this.shift = 0;
    this.moved = 0;
  }

  /**
   * Takes what a frame of the engine told. `drops`: packets dropped in it, where packets are not on record; `backlog`:
   * those in the queue, where nobody tells which.
   */
  take(told, drops, drawn, backlog = null) {
    const before = this.held.length;
    this.held = backlog === null ? packetsOf(told.held) : Array.from({ length: backlog }, () => ({ flow: null }));
    const packets = packetsOf(told.packets);
    if (told.whole) Object.assign(this, { flying: [], falling: [], shift: 0 });
    let left = 0;
    for (const packet of packets) {
      if (packet.what === DELIVERED) {
        this.flying.push(packet);
        left += 1;
      } else if (packet.what === DROPPED) this.fall(packet.flow, this.held.length);
    }
    if (!drawn) {
      this.flying = [];
      for (let i = 0; i < Math.min(drops, 3); i += 1) this.fall(null, before);
    }
    // One packet moves smoothly; many at once would only lag behind.
    if (left) this.shift = left === 1 && this.shift < 0.3 ? 1 : 0;
  }

  fall(flow, place) {
    if (this.falling.length < FALLING) this.falling.push({ flow, place, since: performance.now(), turn: Math.random() * 2 - 1 });
  }

  /** Draws the network at `now` (ns). */
  draw({ now, values, flows, active, drawn, rtt, sinceLast, speed, file }) {
    const { context: c, width, height } = sharp(this.canvas);
    const ink = colours();
    const narrow = width < 560;
    const [left, right] = narrow ? [46, width - 44] : [92, width - 86];
    const gate = right - (narrow ? 46 : 120);
    const top = narrow ? 44 : 52;
    const box = { x: left + (narrow ? 14 : 40), y: top, w: gate - left - (narrow ? 14 : 40), h: narrow ? 60 : 78 };
    const middle = box.y + box.h / 2;
    const back = height - (narrow ? 34 : 40);
    c.font = FONT;
    c.lineCap = "round";

    // The way round: from the link to the receiver, and back to the senders.
    const corner = narrow ? 14 : 18;
    const way = new Path2D();
    way.moveTo(gate, middle);
    way.lineTo(right + corner, middle);
    way.arcTo(right + 2 * corner, middle, right + 2 * corner, middle + corner, corner);
    way.lineTo(right + 2 * corner, back - corner);
    way.arcTo(right + 2 * corner, back, right + corner, back, corner);
    way.lineTo(left - corner - 10, back);
    way.arcTo(left - 2 * corner - 10, back, left - 2 * corner - 10, back - corner, corner);
    way.lineTo(left - 2 * corner - 10, middle + corner);
    way.arcTo(left - 2 * corner - 10, middle, left - corner - 10, middle, corner);
    way.lineTo(box.x, middle);
    c.strokeStyle = ink.line;
    c.lineWidth = 11;
    c.stroke(way);

    const along = this.points(gate, middle, right, back, left, corner);
    const base = values.rtt * 1e3;
    const first = this.flying.findIndex((packet) => packet.at > now - base);
    this.flying = first < 0 ? [] : this.flying.slice(first);
    if (drawn && this.flying.length <= DOTS) {
      for (const packet of this.flying) {
        const part = (now - packet.at) / base;
        if (part < 0) continue;
        const [x, y] = along(part);
        c.fillStyle = colourOf(packet.flow);
        const acked = part > 0.5;
        c.beginPath();
        c.arc(x, y, acked ? 2.4 : 4, 0, 7);
        c.fill();
        if (packet.marked && !acked) {
          c.strokeStyle = ink.warn;
          c.lineWidth = 2;
          c.stroke();
        }
      }
    } else if (active.some((flow) => flow.rate > 0.01)) {
      // Too many to be told apart: a band, with each flow's share.
      const total = active.reduce((sum, flow) => sum + (flow.rate || 0), 0) || 1;
      const dash = 90;
      // No faster than the eye follows.
      this.moved = (this.moved + Math.min((sinceLast * 1e6 * speed * 1500) / base, 4)) % dash;
      let from = 0;
      for (const flow of active) {
        const length = (dash * (flow.rate || 0)) / total;
        c.setLineDash([Math.max(length - 2, 0.01), dash - length + 2]);
        c.lineDashOffset = from - this.moved;
          c.strokeStyle = colourOf(flow.index);
        c.lineWidth = 5;
        c.lineCap = "butt";
        c.globalAlpha = Math.min(1, 0.25 + 0.75 * (total * 1e6) / values.rate);
        c.stroke(way);
        from -= length;
      }
      c.setLineDash([]);
      c.globalAlpha = 1;
      c.lineCap = "round";
    }

    // The queue: the oldest packet is at the right.
    c.fillStyle = ink.soft;
    c.strokeStyle = ink.rule;
    c.lineWidth = 1.5;
    c.beginPath();
    c.roundRect(box.x, box.y, box.w, box.h, 6);
    c.fill();
    c.stroke();
    this.shift *= Math.exp(-sinceLast / 50);
    const slot = Math.min(14, (box.w - 8) / Math.max(values.buffer, this.held.length));
    const inner = { y: box.y + 5, h: box.h - 10, right: box.x + box.w - 4 };
    let column = -1;
    c.save();
    c.beginPath();
    c.rect(box.x + 2, box.y, box.w - 3, box.h);
    c.clip();
    this.held.forEach((packet, i) => {
      const x = inner.right - (i + 1 + this.shift) * slot;
      if (slot < 1 && Math.floor(x) === column) return;
      column = Math.floor(x);
      c.fillStyle = packet.flow === null ? ink.muted : colourOf(packet.flow);
      c.fillRect(x, inner.y, Math.max(slot > 3 ? slot - 1 : slot, 1), inner.h);
    });
    c.restore();

    // One bandwidth-delay product, where the buffer has room for it.
    const product = bdp(values);
    c.font = SMALL;
    if (product < values.buffer && (!file || file.buffer)) {
      const x = inner.right - product * slot;
      if (x > box.x + 6) {
        c.strokeStyle = ink.ink;
        c.lineWidth = 1;
        c.setLineDash([4, 3]);
        c.beginPath();
        c.moveTo(x, box.y - 5);
        c.lineTo(x, box.y + box.h + 5);
        c.stroke();
        c.setLineDash([]);
        c.fillStyle = ink.muted;
        c.textAlign = x < box.x + 40 ? "left" : "center";
        c.fillText("1 BDP", x, box.y + box.h + 18);
      }
    }
    // The end of the buffer, if its slots do not fill the box.
    const end = inner.right - values.buffer * slot;
    if (end > box.x + 6) {
      c.strokeStyle = ink.rule;
      c.lineWidth = 1.5;
      c.beginPath();
      c.moveTo(end - 1, box.y + 2);
      c.lineTo(end - 1, box.y + box.h - 2);
      c.stroke();
    }

    c.font = FONT;
    c.fillStyle = ink.ink;
    c.textAlign = "left";
    const waits = (this.held.length * 1514 * 8 * 1e6) / values.rate;
    c.fillText(`${narrow ? "" : "Queue: "}${this.held.length}${file && !file.buffer ? "" : ` of ${values.buffer}`} packets`, box.x, box.y - 12);
    c.textAlign = "right";
    c.fillStyle = ink.muted;
    c.fillText(`${asTime(waits)}${narrow ? "" : " to wait"}`, box.x + box.w, box.y - 12);

    // The link.
    c.fillStyle = ink.ink;
    c.beginPath();
    c.moveTo(gate + 2, middle - 16);
    c.lineTo(gate + 14, middle - 7);
    c.lineTo(gate + 14, middle + 7);
    c.lineTo(gate + 2, middle + 16);
    c.fill();
    c.textAlign = narrow ? "right" : "left";
    const inside = right + 2 * corner - 12;
    label(c, file && file.links.length > 1 ? `${file.links[file.link]}, ${asRate(values.rate)}` : asRate(values.rate), narrow ? inside : gate + 20, narrow ? middle + 38 : middle - 16);

    // Senders and the receiver.
    const senders = active.filter((flow) => flow.running).slice(0, 10);
    const gap = Math.min(20, (box.h + 14) / Math.max(senders.length, 1));
    senders.forEach((flow, i) => {
      const y = middle + (i - (senders.length - 1) / 2) * gap;
      c.fillStyle = colourOf(flow.index);
      c.beginPath();
      c.arc(left - 12, y, Math.min(7, gap / 2), 0, 7);
      c.fill();
      if (narrow) return;
      c.fillStyle = ink.ink;
      c.textAlign = "right";
      if (gap > 11) label(c, nameOf(flows[flow.index].cc), left - 26, y + 4);
    });
    c.fillStyle = ink.ink;
    c.beginPath();
    c.roundRect(right - 4, middle - 12, 22, 24, 5);
    c.fill();
    c.textAlign = "right";
    c.fillStyle = ink.muted;
    c.font = SMALL;
    if (!narrow) label(c, "receivers", inside, middle + 28);
    c.textAlign = "center";
    c.fillText(`← acknowledgements; base RTT ${asTime(values.rtt)}${rtt > 0 ? `, now ${asTime(rtt * 1e3)}` : ""}`, (left + right) / 2, back + 22);

    // Dropped packets fall out of the queue.
    const clock = performance.now();
    this.falling = this.falling.filter((drop) => clock - drop.since < FALL);
    for (const drop of this.falling) {
      const part = (clock - drop.since) / FALL;
      const x = Math.max(inner.right - (drop.place + 1) * slot, box.x + 4) + drop.turn * 12 * part;
      c.save();
      c.translate(x, box.y + box.h * 0.6 + part * part * (back - box.y - 30));
      c.rotate(drop.turn * part * 3);
      c.globalAlpha = 1 - part * part;
      c.fillStyle = drop.flow === null ? ink.alarm : colourOf(drop.flow);
      c.strokeStyle = ink.alarm;
      c.lineWidth = 2;
      c.fillRect(-4, -6, 8, 12);
      c.strokeRect(-4, -6, 8, 12);
      c.restore();
    }
    if (this.falling.length) {
      c.fillStyle = ink.alarm;
      c.font = `600 ${FONT}`;
      c.textAlign = "left";
      c.fillText("dropped", box.x + 24, box.y + box.h + 34);
    }
  }

  /** Gives a point at a part of the way round: data takes half of the time, ACKs the other. */
  points(gate, middle, right, back, left, corner) {
    const outer = right + 2 * corner;
    const inner = left - 2 * corner - 10;
    return (part) => {
      if (part < 0.5) return [gate + 14 + (right - gate - 14) * part * 2, middle];
      const [down, across] = [back - middle, outer - inner];
      let d = (part - 0.5) * 2 * (2 * down + across);
      if (d < down) return [outer, middle + d];
      d -= down;
      if (d < across) return [outer - d, back];
      return [inner, back - (d - across)];
    };
  }
}
