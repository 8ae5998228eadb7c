"""Measures the engine in a browser beside the native one.

make site
python scripts/browser_speed.py [CASE]...

Runs cases of ``knee bench`` in headless Chromium and in the installed core in turns, and prints the least times, since
others use the machine too. The browser's first run does not count: the engine is compiled meanwhile. Then counts the
pictures that the page draws in a second.
"""

from __future__ import annotations

import itertools
import json
import runpy
import sys
import time
from pathlib import Path

from knee import _core
from knee.bench.cases import CASES
from knee.scenario.spec import spec

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 9
TIMED = """(async () => {
  const begun = performance.now();
  await knee.whole({ spec: SPEC }, false);
  return performance.now() - begun;
})()"""
PICTURES = """new Promise((done) => {
  const begun = performance.now();
  let drawn = 0;
  const count = () => {
    drawn += 1;
    const passed = performance.now() - begun;
    if (passed < 4000) requestAnimationFrame(count); else done((1000 * drawn) / passed);
  };
  requestAnimationFrame(count);
})"""


def main(cases: list[str]) -> None:
    """Prints a line for each case."""
    page = ROOT / "site" / "build" / "play.html"
    if not page.is_file():
        sys.exit(f"{page.relative_to(ROOT)} is not there. Run make site first.")
    browser = runpy.run_path(str(ROOT / "tests" / "browser.py"))
    tab = browser["Tab"](page, browser["DESKTOP"])
    tab.until("Boolean(globalThis.knee?.state.history)")
    tab.evaluate("knee.state.playing = false")
    for case in cases or ["reno2", "cubic2", "bbr2", "link-wifi", "transfers"]:
        told = json.dumps(spec(CASES[case][1]()))
        timed = TIMED.replace("SPEC", told)
        tab.evaluate(timed)
        there, here = [], []
        for _ in range(ROUNDS):
            there.append(tab.evaluate(timed))
            begun = time.perf_counter()
            _core.simulate(told)
            here.append(1e3 * (time.perf_counter() - begun))
        speed = min(here) / min(there)
        print(f"{case:10} browser {min(there):5.0f} ms   native {min(here):5.0f} ms   speed {speed:.2f}", flush=True)
    for flows, speed in itertools.product((1, 10), (1, 10)):
        senders = ",".join(["cubic"] * flows)
        tab.evaluate(f"location.hash = '#duration=60000000&interval=100000&flows={senders}&speed={speed}'")
        tab.until(f"knee.state.scene.flows.length === {flows} && knee.state.speed === {speed}")
        tab.evaluate("knee.state.playing = true")
        print(f"{flows:2} flows, {speed:2} times real time: {tab.evaluate(PICTURES):.0f} pictures a second", flush=True)
    tab.close()


if __name__ == "__main__":
    main(sys.argv[1:])
