"""QUIC stacks beside quinn."""

from __future__ import annotations

from pathlib import Path

import pytest

import knee
from knee.errors import KneeError
from knee.scenario.loading import load

SCENARIO = """
duration = "60 s"
warmup = "10 s"
link = { rate = "20 Mbit/s", limit = "40 ms" }
flows = [
  { cc = "noq:cubic", rtt = "40 ms", transport = "quic" },
  { cc = "cubic", rtt = "40 ms" },
]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "noq.toml"
    path.write_text(SCENARIO)
    return path


def test_flows_of_noq_share_a_link_with_tcp(scenario: Path) -> None:
    noq, tcp = knee.run(scenario).summary["flows"]
    # Two of an algorithm, over two transports: within a factor of two, and no more than the link has.
    assert 0.5 < noq["goodput_mbps"] / tcp["goodput_mbps"] < 2
    # At the edges of the window of 50 s each may have a packet more.
    assert 0.9 * 20 < noq["throughput_mbps"] + tcp["throughput_mbps"] < 20 + 2 * 1500 * 8 / 50e6


def test_connections_of_noq_are_not_logged(scenario: Path, tmp_path: Path) -> None:
    with pytest.raises(KneeError, match=r"flows\[0\]\.cc: --qlog does not log connections of noq"):
        knee.run(scenario, out=tmp_path / "out", qlog=True)


def test_an_unknown_controller_of_a_stack_is_refused_by_name(scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("noq:cubic", "quinn:cubix"))
    with pytest.raises(KneeError, match="did you mean quinn:cubic"):
        load(scenario)
