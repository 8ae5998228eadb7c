// Numbers as people read them.

const short = (x, digits) => Number(x.toPrecision(digits)).toString();

export function asRate(bps) {
  if (bps >= 1e9) return `${short(bps / 1e9, 3)} Gbit/s`;
  return bps >= 1e6 ? `${short(bps / 1e6, 3)} Mbit/s` : `${short(bps / 1e3, 3)} kbit/s`;
}

export function asTime(us) {
  if (us >= 1e6) return `${short(us / 1e6, 3)} s`;
  return us >= 1e3 ? `${short(us / 1e3, 3)} ms` : `${short(us, 3)} µs`;
}

export const asPercent = (x) => `${short(x * 100, 2)} %`;
export const asCount = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;


/** A figure as tables of `knee run` have it: two decimals, more where it is small. */
export const asFigure = (x) => (x === null ? "–" : x.toFixed(x > 0 && x < 10 ? Math.min(6, 3 - Math.floor(Math.log10(x))) : 2).replace(/(\.\d\d\d*?)0+$/, "$1"));

/** Names of algorithms as papers write them. */
const NAMES = { bbr: "BBR", bbr3: "BBRv3", bic: "BIC", c4: "C4", call: "Video call", cdg: "CDG", copa: "Copa", cubic: "CUBIC", daimd: "DAIMD", dctcp: "DCTCP", fast: "FAST", hand: "You", highspeed: "HighSpeed", htcp: "H-TCP", hybla: "Hybla", illinois: "Illinois", ledbat: "LEDBAT", lola: "LoLa", lp: "TCP-LP", nv: "NV", prague: "Prague", reno: "Reno", scalable: "Scalable", timely: "TIMELY", vegas: "Vegas", veno: "Veno", vivace: "PCC Vivace", westwood: "Westwood", yeah: "YeAH", compound: "Compound" };
export const nameOf = (cc) => NAMES[cc] ?? cc;
/** The name of a flow: its algorithm, and QUIC where it goes over that. */
export const titleOf = ({ cc, quic }) => (quic ? `${nameOf(cc)} over QUIC` : nameOf(cc));

/** A round number no less than `x`: 1, 2, 2.5 or 5 times a power of ten. */
export function roundUp(x) {
  if (!(x > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * power >= x * 0.999999) * power;
}
