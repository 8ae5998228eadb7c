"""What stands in Python and in Rust is the same in both: layouts of rows, and defaults."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from knee import _core
from knee.figures import rows
from knee.scenario import Core, from_dict
from knee.scenario.model import Quic, Tcp
from knee.scenario.spec import spec

CRATES = Path(__file__).parents[1] / "crates"
SOURCES = [CRATES / "knee-net" / "src" / "output.rs", CRATES / "knee-traffic" / "src" / "completion.rs"]
TYPES = {"f64": "<f8", "f32": "<f4", "u64": "<u8", "u32": "<u4", "i32": "<i4"}


def _rust_fields(name: str) -> list[tuple[str, str]]:
    """Names and types of the fields of a ``#[repr(C)]`` struct, in order."""
    found = re.search(
        rf"#\[repr\(C\)\]\n#\[derive.*\]\npub struct {name} \{{\n(.*?)\n\}}",
        "".join(path.read_text() for path in SOURCES),
        re.DOTALL,
    )
    assert found is not None
    return re.findall(r"^    pub (\w+): (\w+),$", found[1], re.MULTILINE)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("SampleRow", rows.SAMPLE),
        ("LinkRow", rows.LINK),
        ("EventRow", rows.EVENT),
        ("Completion", rows.COMPLETION),
        ("DelayRow", rows.DELAY),
        ("DistributionRow", rows.DISTRIBUTION),
    ],
)
def test_rows_have_the_fields_of_the_core_in_its_order(name: str, dtype: np.dtype[np.void]) -> None:
    """Two fields of one size that changed places would keep the size of a row."""
    assert dtype.names is not None
    assert dtype.fields is not None
    ours = [(field, dtype.fields[field][0].str) for field in dtype.names]
    assert ours == [(field, TYPES[kind]) for field, kind in _rust_fields(name)]
    # Packed: the struct has no padding, since bytemuck accepts it.
    assert dtype.itemsize == sum(np.dtype(kind).itemsize for _, kind in ours)


def test_kinds_of_completions_have_the_names_of_the_core() -> None:
    found = re.search(r"NAMES: \[&str; \d+\] = \[(.*?)\];", SOURCES[1].read_text())
    assert found is not None
    assert tuple(re.findall(r'"(\w+)"', found[1])) == rows.WHAT


#: A run on which every setting of TCP has an effect: a short path, losses, timeouts, idle time, windows that grow late.
SCENARIO: dict[str, Any] = {
    "duration": "4 s",
    "link": {"rate": "200 Mbit/s", "limit": "60 packets", "loss": 0.04},
    "flows": [
        {"cc": "cubic", "rtt": "2 ms"},
        {"cc": "reno", "rtt": "100 ms", "bytes": "100 kB", "count": 20, "stagger": "100 ms"},
        {"cc": "reno", "rtt": "20 ms", "traffic": {"kind": "bursts", "period": "1 s", "burst": "100 kB"}},
    ],
    # After this much, ACKs are delayed.
    "tcp": {"window_growth": "30 kB"},
}
#: Another value for each key of [tcp], in base units.
OTHERS = {
    "tick": 10_000_000,
    "initial_window": 4,
    "rto_min": 300_000_000,
    "delayed_ack": 100_000_000,
    "sack_delay": 0,
    "receive_offload": 600_000,
    "tso": False,
    "tso_rtt_log": 0,
    "slow_start_after_idle": False,
    "window_growth": 100_000,
    "receive_window": 20_000,
    "trace_rtt": True,
}


#: The same of QUIC: a large window, losses, datagrams that wait, a first packet that is lost, and an outage.
OVER_QUIC: dict[str, Any] = {
    "duration": "2 s",
    "link": {"rate": "20 Mbit/s", "limit": "60 packets", "loss": 1.0},
    "changes": [
        {"at": "50 ms", "link": "bottleneck", "loss": 0.0},
        {"at": "1.3 s", "link": "bottleneck", "loss": 1.0},
        {"at": "1.8 s", "link": "bottleneck", "loss": 0.0},
    ],
    "flows": [
        {"cc": "quinn:cubic", "rtt": "40 ms", "transport": "quic"},
        {"cc": "reno", "rtt": "40 ms", "transport": "quic"},
        {
            "cc": "cubic",
            "rtt": "40 ms",
            "transport": "quic",
            "traffic": {"kind": "udp", "rate": "20 Mbit/s", "packet_size": "1000 B"},
        },
    ],
}
#: A connection on which as many requests run at once as the least limit of streams lets it.
WITH_STREAMS: dict[str, Any] = OVER_QUIC | {
    "flows": [
        {
            "cc": "reno",
            "rtt": "40 ms",
            "transport": "quic",
            "traffic": {"kind": "requests", "size": "10 kB", "objects": 50, "streams": 10, "together": True},
        },
    ],
}
OTHERS_OF_QUIC = {
    "preset": "chromium",
    "certificate": 5_000,
    "zero_rtt": True,
    "retry": True,
    "idle_timeout": 5_000_000,
    "initial_window": 20,
    "initial_rtt": 100_000_000,
    "packet_threshold": 10,
    "pacing": False,
    "gso": 5,
    "receive_window": 20_000,
    "stream_receive_window": 20_000,
    "max_streams": 10,
    "initial_mtu": 1300,
    "max_mtu": 1400,
    "max_ack_delay": 5_000_000,
    "ack_eliciting_threshold": 5,
    "datagram_buffer": 10_000,
}


@pytest.mark.parametrize("table", ["tcp", "quic"])
def test_the_core_has_the_defaults_of_scenario_files(table: Literal["tcp", "quic"]) -> None:
    """A specification without the key gives the same bits as one with the default, and one with another does not."""
    model, told, others = {
        "tcp": (Tcp, spec(from_dict(SCENARIO)), OTHERS),
        "quic": (Quic, spec(from_dict(OVER_QUIC)), OTHERS_OF_QUIC),
    }[table]
    assert others.keys() == model.model_fields.keys()
    for key, field in model.model_fields.items():
        rest = {name: value for name, value in told[table].items() if name != key}

        base = spec(from_dict(WITH_STREAMS)) if key == "max_streams" else told

        def run(setting: Core, base: Any = base, rest: Core = rest) -> tuple[str, dict[str, bytes]]:
            return _core.simulate(json.dumps(base | {table: rest | setting}))

        left_out = run({})
        assert run({key: field.default}) == left_out
        assert run({key: others[key]}) != left_out
