"""Looks at pages in headless Chromium, over its debugging pipe: nothing else is installed for it."""

from __future__ import annotations

import atexit
import base64
import functools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
NEEDS_CHROMIUM = [
    pytest.mark.packages,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
PHONE, DESKTOP = 390, 1400
"""Widths in pixels at which every page is looked at."""
HEIGHT = {PHONE: 844, DESKTOP: 900}
PATIENCE_S = 120


def needs_chromium(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test that looks at pages."""
    for mark in NEEDS_CHROMIUM:
        test = mark(test)
    return test


#: The pipe is file descriptors 3 and 4 of Chromium's; a launcher moves ours there, whatever their numbers are.
_LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for end, wanted in zip(ends, (3, 4)):
    os.dup2(end, wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""
_FLAGS = "--headless --no-sandbox --disable-gpu --remote-debugging-pipe --no-first-run --hide-scrollbars".split()

#: What every look asks: the page's size, its pictures, and texts of a figure that lie over each other.
_ASK = """
(async () => {
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  for (const draw of [globalThis.drawAllCharts]) if (draw) await draw();
  const root = document.documentElement;
  const broken = [...document.images].filter((i) => !i.complete || i.naturalWidth === 0).map((i) => i.alt);
  const overlaps = [];
  for (const chart of document.querySelectorAll(".chart")) {
    // What is on the canvas is looked at in the same drawing as SVG, at the same width.
    const drawn = globalThis.drawAllCharts && charts.of(chart)?.chart;
    const svg = Object.assign(document.createElement("div"), { id: chart.id });
    svg.innerHTML = drawn ? await charts.svg(drawn, chart.clientWidth) : chart.innerHTML;
    document.body.append(svg);
    const texts = [...svg.querySelectorAll("text")].filter((t) => t.textContent.trim());
    const boxes = texts.map((t) => [t.textContent, t.getBoundingClientRect()]).filter(([, b]) => b.width && b.height);
    boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
      const over = Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1.5
        && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3;
      if (over) overlaps.push(`${svg.id}: ${a} | ${b}`);
    }));
    svg.remove();
  }
  const told = { width: root.scrollWidth, height: root.scrollHeight, images: document.images.length, broken, overlaps };
  told.charts = [...document.querySelectorAll(".chart")].filter((c) => c.querySelector(".uplot")).length;
  told.probe = (await (async () => { %s })()) ?? null;
  return told;
})()
"""


#: What `Tab.cut_tables` asks: how each table that is wider than a box around it is cut, and where that box is. What is
#: folded is opened first.
_CUT = """(() => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const cut = (inner, at) => {
    for (let box = at; box; box = box.parentElement) {
      const { overflowX } = getComputedStyle(box);
      const { left, top } = box.getBoundingClientRect();
      const right = box === document.documentElement ? innerWidth : left + box.clientLeft + box.clientWidth;
      if (overflowX === "visible" && box !== document.documentElement) continue;
      if (inner.getBoundingClientRect().right <= right + 1) continue;
      return { how: overflowX, right: right + scrollX, top: top + scrollY, height: box.clientHeight };
    }
    return null;
  };
  return [...document.querySelectorAll("table")].filter((table) => table.getClientRects().length).flatMap((table) => {
    const name = table.closest("[id]")?.id ?? table.textContent.trim().slice(0, 40);
    const lost = [...table.querySelectorAll("th, td")].filter((cell) => (
      getComputedStyle(cell).overflowX !== "visible" && cell.scrollWidth > cell.clientWidth + 1));
    return [cut(table, table.parentElement), ...lost.map(() => ({ how: "hidden" }))].filter(Boolean)
      .map((each) => ({ name, ...each }));
  });
})()"""
#: By how much of 255 a table's edge is at least darker than what is left of it, where a shadow says that it goes on.
_SHADOW = 20


class Browser:
    """A running Chromium."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self._profile = tempfile.TemporaryDirectory(prefix="knee-browser-", ignore_cleanup_errors=True)
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()
        command = [sys.executable, "-c", _LAUNCHER, str(theirs_in), str(theirs_out), CHROMIUM]
        command += [*_FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stdout=quiet, stderr=quiet)
        os.close(theirs_in)
        os.close(theirs_out)
        self._calls = 0
        self._buffer = b""
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        os.close(self._read)
        os.close(self._write)
        self._profile.cleanup()

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(until - time.monotonic(), 0))
            assert ready, "Chromium does not answer"
            more = os.read(self._read, 1 << 20)
            assert more, "Chromium has ended"
            self._buffer += more
        message, self._buffer = self._buffer.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """A method of the debugging protocol."""
        self._calls += 1
        call: dict[str, Any] = {"id": self._calls, "method": method, "params": params}
        if session is not None:
            call["sessionId"] = session
        os.write(self._write, json.dumps(call).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            message = self._message(until)
            if message.get("id") == call["id"]:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def wait(self, session: str, method: str) -> None:
        """Waits until an event has come."""
        until = time.monotonic() + PATIENCE_S
        while not any(e.get("sessionId") == session and e.get("method") == method for e in self.events):
            self.events.append(self._message(until))


@functools.cache
def _browser() -> Browser:
    browser = Browser()
    atexit.register(browser.close)
    return browser


class Tab:
    """A page that is open at a width; a phone's has touch."""

    def __init__(self, page: Path, width: int, dark: bool = False) -> None:
        self._browser = _browser()
        self._target = self._browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._browser.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session: str = attached["sessionId"]
        phone = width < 700
        for name in ("Page", "Runtime", "Log"):
            self.call(f"{name}.enable")
        size = {"width": width, "height": HEIGHT.get(width, 900), "deviceScaleFactor": 1}
        self.call("Emulation.setDeviceMetricsOverride", mobile=phone, **size)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone, maxTouchPoints=2)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=scheme)
        self.call("Page.navigate", url=page.resolve().as_uri())
        self._browser.wait(self._session, "Page.loadEventFired")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A method of the debugging protocol, for this page."""
        return self._browser.call(method, self._session, **params)

    def evaluate(self, script: str) -> Any:
        """The value of an expression; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + PATIENCE_S
        while not self.evaluate(condition):
            assert time.monotonic() < end, f"never: {condition}"
            time.sleep(0.05)

    def ask(self, probe: str = "") -> dict[str, Any]:
        """What `look` gives."""
        told: dict[str, Any] = self.evaluate(_ASK % probe)
        return told | {"console": self.console()}

    def console(self) -> list[str]:
        """Everything that was complained of: by scripts, and by the browser itself."""
        said = []
        for event in self._browser.events:
            if event.get("sessionId") == self._session:
                said += _SAID.get(event["method"], lambda _: [])(event["params"])
        return said

    def press(self, *keys: str) -> None:
        """Presses keys one after the other, such as "Tab" or "ArrowDown"."""
        codes = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        for key in keys:
            for kind in ("keyDown", "keyUp"):
                code = {"windowsVirtualKeyCode": codes[key]}
                self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **code)

    def tap(self, selector: str) -> None:
        """Touches the middle of an element (of its first line), which is brought into view first."""
        self.touch(selector, [[(0.5, 0.5)]])

    def touch(self, selector: str, moves: Sequence[Sequence[tuple[float, float]]]) -> None:
        """Puts fingers on an element, which is brought into view first, moves them, and lifts them.

        Args:
            selector: of the element.
            moves: where the fingers are at each moment, as parts of the element's width and height (of its first line).
        """
        # Chromium drops touches before a page has been painted, which on a busy machine is well after it was loaded.
        # A chart that is drawn as it comes near may move what is touched.
        painted = "new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)))"
        self.evaluate(f"Promise.resolve(globalThis.drawAllCharts?.()).then(() => {painted})")
        place = f"""(() => {{
          const found = document.querySelector({json.dumps(selector)});
          found.scrollIntoView({{ block: "center", inline: "center", behavior: "instant" }});
          const [box] = found.getClientRects();
          return {{ x: box.x, y: box.y, width: box.width, height: box.height }};
        }})()"""
        box = self.evaluate(place)
        for i, fingers in enumerate(moves):
            points = [
                {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"], "id": finger}
                for finger, (x, y) in enumerate(fingers)
            ]
            self.call("Input.dispatchTouchEvent", type="touchMove" if i else "touchStart", touchPoints=points)
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def cut_tables(self) -> list[str]:
        """The tables that are wider than their box and do not show it: nothing scrolls, or no shadow is at the edge."""
        told = []
        for each in self.evaluate(_CUT):
            if each["how"] not in ("auto", "scroll"):
                told.append(f"{each['name']}: cut off")
            elif self._shade(each) < _SHADOW:
                told.append(f"{each['name']}: scrolls without a sign of it")
        return told

    def _shade(self, box: dict[str, float]) -> float:
        """How much darker the right edge of a box is than what is 30 px left of it, in the median of its rows."""
        import io

        import numpy as np
        from matplotlib.image import imread

        clip = {"x": box["right"] - 32, "y": box["top"], "width": 32, "height": min(box["height"], 400), "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        pixels = 255 * imread(io.BytesIO(base64.b64decode(shot["data"])), format="png")[..., :3].mean(axis=2)
        return float(np.median(pixels[:, :3].mean(axis=1) - pixels[:, -3:].mean(axis=1)))

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """A picture of the page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **(self._whole() if whole else {}))
        path.write_bytes(base64.b64decode(shot["data"]))

    def _whole(self) -> dict[str, Any]:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}}

    def close(self) -> None:
        """Closes the page."""
        self._browser.call("Target.closeTarget", targetId=self._target)
        self._browser.events.clear()


_SAID: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "Runtime.consoleAPICalled": lambda p: [" ".join(str(arg.get("value", arg)) for arg in p["args"])],
    "Runtime.exceptionThrown": lambda p: [p["exceptionDetails"].get("exception", {}).get("description", "error")],
    "Log.entryAdded": lambda p: [p["entry"]["text"]],
}


def look(page: Path, width: int = DESKTOP, probe: str = "") -> dict[str, Any]:
    """Opens `page` and gives what it tells of itself.

    Args:
        page: an HTML file.
        width: of the window, in pixels.
        probe: JavaScript that returns something, or a promise of it, which comes back as `probe`.

    Returns:
        `width` and `height` of the whole page, in pixels; `images`, how many, and `broken`, those not shown; `charts`,
        how many were drawn; `overlaps`, texts of a chart that lie over each other; `console`, what was complained of.
    """
    tab = Tab(page, width)
    try:
        return tab.ask(probe)
    finally:
        tab.close()


def check_layout(page: Path, width: int, tallest: int, probe: str = "") -> dict[str, Any]:
    """Laws of every page: nothing wider than the window or cut unseen, no text over text, no complaint, not endless.

    Returns:
        What `look` does.
    """
    tab = Tab(page, width)
    try:
        told = tab.ask(probe)
        cut = tab.cut_tables()
    finally:
        tab.close()
    assert cut == [], f"{page.name} at {width} px: {'; '.join(cut)}"
    assert told["width"] <= width, f"{page.name} is {told['width']} px wide in a window of {width}"
    assert told["console"] == []
    assert told["broken"] == []
    assert told["overlaps"] == []
    assert told["height"] <= tallest, f"{page.name} is {told['height']} px long"
    return told
