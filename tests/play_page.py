"""Parts that the tests of the page `play` share: the page, its engine and the native one, files dropped on it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from browser import Tab
from knee import _core
from knee.scenario import Scenario, registry
from knee.scenario.spec import spec

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "site" / "build" / "play.html"
needs_page = pytest.mark.skipif(not PAGE.is_file(), reason="the page play is not built: make site")
TABLES = ("samples", "links", "events", "completions", "delays", "distributions")
#: Links that could carry more than this in a run would take too long here.
MOST_PACKETS = 1_000_000
READY = "Boolean(globalThis.knee?.state.history)"
#: Lets go of a file of this name and text over the page.
DROP = """(() => {
  const held = new DataTransfer();
  held.items.add(new File([%s], %s));
  dispatchEvent(new DragEvent("drop", { dataTransfer: held, cancelable: true }));
})()"""


def ordered(figures: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(figures)
    # How it went is no figure: the page watches every packet.
    return {key: value for key, value in found.items() if key not in ("threads", "event_by_event")}


def native(told: str) -> dict[str, Any]:
    figures, tables = _core.simulate(told)
    return {"figures": ordered(figures)} | {name: hashlib.sha256(tables[name]).hexdigest() for name in TABLES}


def in_page(tab: Tab, request: str) -> dict[str, Any]:
    script = f"""(async () => {{
      const told = await knee.whole({request}, true);
      const result = {{ figures: told.figures }};
      for (const name of {json.dumps(TABLES)}) {{
        const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", told[name]));
        result[name] = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      }}
      return result;
    }})()"""
    found: dict[str, Any] = tab.evaluate(script)
    return found | {"figures": ordered(found["figures"])}


def suits(scenario: Scenario) -> bool:
    """Whether the browser's engine can run it, in a time that tests have."""
    if any(flow.cc in registry.quic_controllers() for flow in scenario.flows):
        return False
    told = spec(scenario)
    rates = [link["capacity"].get("rate", 0) for link in told["links"]]
    return bool(max(rates) * told["duration"] / 1e9 / 8 / 1514 < MOST_PACKETS)
