"""A run on several threads gives the same bits, and says how many there were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import knee
from knee.errors import ScenarioError
from knee.scenario import from_dict

#: Enough flows for two threads, in a network that goes in batches.
MANY = {
    "name": "many",
    "duration": "200 ms",
    "link": {"rate": "1 Gbit/s"},
    "flows": [{"cc": "cubic", "rtt": "20 ms", "count": 2048}],
}


def _run(out: Path, threads: int | str | None = None, **other: Any) -> knee.Result:
    run = {} if threads is None else {"run": {"threads": threads}}
    return knee.run({**MANY, **run, **other}, out=out, report=False)


def _bits(result: knee.Result) -> tuple[str, bytes]:
    summary = {key: value for key, value in result.summary.items() if not key.startswith(("wall", "speed"))}
    return json.dumps(summary), result.samples.write_csv().encode()


def test_results_are_the_same_for_any_number_of_threads(tmp_path: Path) -> None:
    results = {threads: _run(tmp_path / str(threads), threads) for threads in (1, 2, 3)}
    # Each has 1024 flows at least.
    assert [result.manifest["threads"] for result in results.values()] == [1, 2, 2]
    assert _bits(results[1]) == _bits(results[2]) == _bits(results[3])


def test_classes_in_python_run_on_one_thread(tmp_path: Path) -> None:
    class Fixed(knee.CongestionControl):
        """Keeps its window."""

    flows = [{"cc": "cubic", "rtt": "20 ms", "count": 2048}, {"cc": Fixed, "rtt": "20 ms"}]
    assert _run(tmp_path / "own", 2, flows=flows).manifest["threads"] == 1


@pytest.mark.parametrize("threads", [0, -1, 1025, 1.5, "all"])
def test_a_number_of_threads_that_cannot_be_is_named(threads: object) -> None:
    with pytest.raises(ScenarioError, match=r"run\.threads: "):
        from_dict({**MANY, "run": {"threads": threads}})
