"""lola-wild beside an upload through a FIFO that delays its ACKs: by timestamps that queue is left out of the RTT."""

from __future__ import annotations

from typing import Any

import pytest

import knee


def _goodput(cc: str, start: str = "3 s", transport: str = "tcp", **params: Any) -> float:
    flow = {"cc": cc, "rtt": "40 ms", "cc_params": params, "transport": transport}
    upload = {"cc": "cubic", "rtt": "40 ms", "direction": "reverse", "start": start}
    link = {"rate": "50 Mbit/s", "limit": "330 packets", "reverse": {"rate": "10 Mbit/s", "limit": "200 packets"}}
    scenario = {"duration": "60 s", "warmup": "10 s", "link": link, "flows": [flow, upload]}
    return float(knee.run(scenario).summary["flows"][0]["goodput_mbps"])


@pytest.mark.parametrize("start", ["3 s", "3777 ms", "5.1 s"])
def test_an_upload_costs_it_no_more_than_it_costs_cubic(start: str) -> None:
    cubic = _goodput("cubic", start)
    assert _goodput("lola-wild", start) > 0.9 * cubic
    assert _goodput("lola-wild", start, one_way=False) < 0.7 * cubic
    assert _goodput("lola", start) < 1


def test_quic_has_no_timestamps_and_the_rtt_decides() -> None:
    assert _goodput("lola-wild", transport="quic") == _goodput("lola-wild", transport="quic", one_way=False)
