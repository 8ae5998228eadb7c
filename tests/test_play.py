"""The page `play`: the engine in it gives the same bits as the native one, and its controls do what they say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import random_scenarios
from browser import DESKTOP, PHONE, Tab, needs_chromium

import knee
from knee import _core
from knee.errors import KneeError
from knee.scenario import Scenario, from_dict, load, shipped
from knee.scenario.spec import spec

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "site" / "build" / "play.html"

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not PAGE.is_file(), reason="the page play is not built: make site"),
]
TABLES = ("samples", "links", "events", "completions", "delays", "distributions")
#: Scenarios of more packets than this take too long here; how long is no matter of what they give.
MOST_PACKETS = 400_000


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    tab = Tab(PAGE, DESKTOP)
    tab.until("Boolean(globalThis.knee?.state.history)")
    tab.evaluate("knee.state.playing = false")
    yield tab
    tab.close()


def _native(told: str) -> dict[str, str]:
    figures, tables = _core.simulate(told)
    output = json.loads(figures)
    output.pop("threads")
    return {"figures": json.dumps(output, sort_keys=True)} | {
        name: hashlib.sha256(tables[name]).hexdigest() for name in TABLES
    }


def _in_page(tab: Tab, told: str) -> dict[str, str]:
    script = f"""(async () => {{
      const told = await knee.whole({{ spec: {told} }}, true);
      const result = {{ figures: told.figures }};
      for (const name of {json.dumps(TABLES)}) {{
        const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", told[name]));
        result[name] = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
      }}
      return result;
    }})()"""
    found: dict[str, str] = tab.evaluate(script)
    return found | {"figures": json.dumps(json.loads(found["figures"]), sort_keys=True)}


def _runs_in_browser(scenario: Scenario) -> bool:
    plain = all(flow.transport == "tcp" for flow in scenario.flows)
    return plain and scenario.run.ground == "sim"


def _shipped() -> list[Scenario]:
    return [scenario for name in shipped.names() if _runs_in_browser(scenario := load(name))]
