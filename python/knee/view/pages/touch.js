"use strict";
// Fingers on a panel: one that moves sideways chooses a stretch, two zoom, a double tap zooms out. A tap is left to the
// browser, which makes of it the movement of a mouse that shows values; what goes up or down scrolls the page.
const touch = (() => {
  const SLOP_PX = 8;
  const LEAST_PX = 12;
  const DOUBLE_TAP_MS = 350;

  /** The stretch of an axis that has two values at two places, within the axis's ends; null if it is all of it. */
  function stretch({ low, high, log }, width, [first, second]) {
    const [to, back] = log ? [Math.log, Math.exp] : [Number, Number];
    const each = (to(second.value) - to(first.value)) / (second.at - first.at);
    const left = to(first.value) - first.at * each;
    const range = [Math.max(back(left), low), Math.min(back(left + width * each), high)];
    return range[0] <= low && range[1] >= high ? null : range;
  }

  /** Calls `zoom` with what fingers on a panel choose: the ends of a stretch, or null for all. */
  function attach(u, zoom) {
    const { over, knee: { axis } } = u;
    if (axis.names) return;
    over.style.touchAction = "pan-y";
    const fingers = new Map();
    let kind = null;
    let tapped = -Infinity;
    let wanted;

    const place = (event) => event.clientX - over.getBoundingClientRect().left;
    const clear = () => u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);

    function later(range) {
      if (wanted === undefined) requestAnimationFrame(() => { zoom(wanted); wanted = undefined; });
      wanted = range;
    }

    function moved(finger) {
      if (kind === "pinch") {
        const pair = [...fingers.values()].slice(0, 2);
        // Fingers that meet or pass each other have no stretch between them.
        if (Math.abs(pair[1].at - pair[0].at) > LEAST_PX && (pair[1].at > pair[0].at) === (pair[1].value > pair[0].value)) {
          later(stretch(axis, over.clientWidth, pair));
        }
        return;
      }
      if (kind === null && Math.abs(finger.at - finger.from) > SLOP_PX) kind = "choose";
      if (kind !== "choose") return;
      const ends = [finger.from, finger.at].map((x) => Math.min(Math.max(x, 0), over.clientWidth)).sort((a, b) => a - b);
      u.setSelect({ left: ends[0], top: 0, width: ends[1] - ends[0], height: over.clientHeight }, false);
    }

    /** A finger is lifted, or the browser scrolls instead. */
    function lifted(event) {
      if (!fingers.delete(event.pointerId)) return;
      const ends = event.type === "pointerup";
      const { left, width } = u.select;
      if (kind === "choose") {
        clear();
        if (ends && width > LEAST_PX) zoom([u.posToVal(left, "x"), u.posToVal(left + width, "x")]);
      } else if (kind === null && ends) {
        if (event.timeStamp - tapped < DOUBLE_TAP_MS) zoom(null);
        tapped = event.timeStamp;
      }
      // The finger that stays after a pinch does nothing more.
      if (fingers.size === 0) kind = null;
    }

    over.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "touch") return;
      const at = place(event);
      fingers.set(event.pointerId, { from: at, at, value: u.posToVal(at, "x") });
      if (fingers.size < 2) return;
      clear();
      kind = "pinch";
      for (const finger of fingers.values()) finger.value = u.posToVal(finger.at, "x");
    });
    over.addEventListener("pointermove", (event) => {
      const finger = fingers.get(event.pointerId);
      if (!finger) return;
      finger.at = place(event);
      moved(finger);
    });
    for (const name of ["pointerup", "pointercancel"]) over.addEventListener(name, lifted);
  }

  return { attach, stretch };
})();
