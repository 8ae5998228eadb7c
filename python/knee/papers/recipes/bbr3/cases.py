"""More of the draft's example test cases: how phases end, aggregation, policers, spurious recovery, pauses."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import polars as pl

from knee.papers import drawing
from knee.papers.items import Value
from knee.papers.paper import Experiment, Results
from knee.papers.recipes.bbr3.common import MARGIN, PAYLOAD, run, states
from knee.papers.recipes.common import number
from knee.results.result import Result

#: Packets per second of the link, its base RTT, and their product.
_PER_S, _RTT_S = 100e6 / 8 / 1514, 0.040
_BDP = _PER_S * _RTT_S


#: Sampled every 10 ms.
_run = partial(run, interval="10 ms")


def _ends(result: Result, state: str) -> list[tuple[float, float, str]]:
    """When the flow was in a state, from and until, and which one followed."""
    return [(at, left, after) for (at, found), (left, after) in pairwise(states(result)) if found == state]


def _at(result: Result, when_s: float, column: str) -> float:
    """The first sample of a column from a moment on."""
    samples = result.samples.filter(pl.col("t_s") >= when_s).sort("t_s")
    return number(samples[column][0]) if samples.height else math.nan


def _in_flight(result: Result, state: str, after: str) -> float:
    """The most that was in flight as the flow left a state for another, in BDPs."""
    left = [_at(result, left, "in_flight_packets") for _, left, then in _ends(result, state) if then == after]
    return max(left, default=math.nan) / _BDP


def _rounds(result: Result, from_s: float, until_s: float) -> float:
    """How many round trips fit between two moments, by the RTTs sampled meanwhile."""
    samples = result.samples.filter(pl.col("t_s").is_between(from_s, until_s) & pl.col("rtt_mean_ms").is_not_null())
    return (until_s - from_s) * number((1000 / samples["rtt_mean_ms"]).mean()) if samples.height else math.nan


def _measure_phases(results: Results) -> dict[str, float]:
    result = results["phases"]
    ups = _ends(result, "probe_bw_up")
    return {
        "drained": _in_flight(result, "drain", "probe_bw_cruise"),
        "down": _in_flight(result, "probe_bw_down", "probe_bw_cruise"),
        "least_up_rounds": min(((left - at) / _RTT_S for at, left, _ in ups), default=math.nan),
        "down_follows_up": bool(ups) and {after for _, _, after in ups} == {"probe_bw_down"},
    }


PHASES = Experiment(
    key="phases",
    runs=[_run("phases", "12 s")],
    measure=_measure_phases,
    drawings=[drawing.of_run("phases", "Throughput and window.")],
)

# The moments are those at which the flow of PHASES enters drain and leaves its first probe.
_DRAIN_S, _DOWN_S = 0.624, 3.105


def _measure_late(results: Results) -> dict[str, float]:
    drain, down = (
        _ends(results[f"late-{name}"], state) for name, state in (("drain", "drain"), ("down", "probe_bw_down"))
    )
    from_s, until_s, _ = drain[0] if drain else (math.nan, math.nan, "")
    began_s, ended_s, then = down[0] if down else (math.nan, math.nan, "")
    return {
        "drain_in_flight": _at(results["late-drain"], until_s, "in_flight_packets") / _BDP,
        "drain_rounds": _rounds(results["late-drain"], from_s, until_s),
        "down_in_flight": _at(results["late-down"], ended_s, "in_flight_packets") / _BDP,
        "down_s": ended_s - began_s,
        "down_to_refill": then == "probe_bw_refill",
    }


LATE = Experiment(
    key="late",
    runs=[
        _run("late-drain", "3 s", changes=[{"at": f"{_DRAIN_S} s", "link": "bottleneck", "rate": "45 Mbit/s"}]),
        _run(
            "late-down",
            "8 s",
            {"cc_params": {"probe_rtt_interval": "60 s"}},
            changes=[{"at": f"{_DOWN_S} s", "link": "bottleneck", "rate": "90 Mbit/s"}],
        ),
    ],
    measure=_measure_late,
    drawings=[
        drawing.of_run("late-drain", "45 Mbit/s from the start of drain on."),
        drawing.of_run("late-down", "90 Mbit/s from the start of ProbeBW_DOWN on."),
    ],
)

#: ACKs come in batches, one per interval of MAPs of a cable modem.
_BATCH_S = 0.010


def _measure_aggregation(results: Results) -> dict[str, float]:
    result = results["aggregated"]
    bdp = _PER_S * float(result.summary["flows"][0]["rtt_min_ms"]) / 1000
    samples = result.samples
    startup, cruise = (samples.filter(pl.col("state") == state) for state in ("startup", "probe_bw_cruise"))
    paced = number(cruise["pacing_rate_mbps"].min()) / (MARGIN * PAYLOAD * 100)
    # From the first cruise on, without the RTT in which what left before drain arrives.
    first = number(cruise["t_s"].min())
    steady = cruise.filter(pl.col("t_s") > first + 0.5)
    return {
        "startup_window": (number(startup["cwnd_packets"].max()) - 2 * bdp) / (_PER_S * _BATCH_S),
        "startup_bandwidth": paced,
        "cruise_window": (number(steady["cwnd_packets"].min()) - 2 * bdp) / (_PER_S * _BATCH_S),
        "cruise_throughput": number(steady["throughput_mbps"].mean()) / 100,
    }


_UPSTREAM = {
    "rate": "100 Mbit/s",
    "model": "docsis",
    "model_params": {"map_interval": "10 ms", "grant_delay": "10 ms"},
}

AGGREGATION = Experiment(
    key="aggregation",
    runs=[_run("aggregated", "20 s", link={"reverse": _UPSTREAM})],
    measure=_measure_aggregation,
    drawings=[drawing.of_run("aggregated", "Throughput and window.")],
)


def _measure_policer(results: Results) -> dict[str, float]:
    flow = results["policed"].summary["flows"][0]
    return {
        "lost_share": float(flow["lost_packets"]) / float(flow["sent_packets"]),
        "used": float(results["policed"].summary["links"][0]["utilization"]),
    }


POLICER = Experiment(
    key="policer",
    runs=[_run("policed", "40 s", link={"burst": "100 kB", "limit": "1 packets"}, warmup="10 s")],
    measure=_measure_policer,
    drawings=[drawing.of_run("policed", "Throughput and window.")],
)

#: When the ACKs of the second run begin to be late, and when they are on time again.
_LATE_S, _AGAIN_S = 6.0, 6.5


def _measure_spurious(results: Results) -> dict[str, float]:
    reordered, late, on_time = results["reordered"], results["late-acks"], results["acks-on-time"]
    recoveries = reordered.events.filter(pl.col("event") == "recovery").height
    timeouts = late.events.filter(pl.col("event") == "timeout").sort("t_s")["t_s"].to_list()
    before = [state for at, state in states(late) if at < _LATE_S]
    # It leaves the state when it would have left it anyway.
    after, anyway = ([state for at, state in states(run) if at >= _LATE_S] for run in (late, on_time))
    stays = bool(after) and all(one == other for one, other in zip(after, anyway, strict=False))
    paced = late.samples.filter(pl.col("t_s").is_between(_AGAIN_S + 1, _AGAIN_S + 1.5))["pacing_rate_mbps"]
    return {
        "spurious_recoveries": bool(recoveries) and not reordered.summary["links"][0]["drops"],
        "reordered_used": float(reordered.summary["links"][0]["utilization"]),
        "spurious_timeouts": bool(timeouts) and not late.summary["links"][0]["drops"],
        "state_stays": bool(timeouts) and before[-1:] == ["probe_bw_cruise"] and stays,
        "pacing_after": number(paced.min()) / (MARGIN * PAYLOAD * 100),
    }


SPURIOUS = Experiment(
    key="spurious",
    runs=[
        _run("reordered", "20 s", link={"jitter": "5 ms", "reorder": True}, warmup="5 s"),
        _run(
            "late-acks",
            "10 s",
            changes=[
                {"at": f"{_LATE_S} s", "flow": "flow 1", "rtt": "1500 ms"},
                {"at": f"{_AGAIN_S} s", "flow": "flow 1", "rtt": "40 ms"},
            ],
        ),
        _run("acks-on-time", "10 s"),
    ],
    measure=_measure_spurious,
    drawings=[
        drawing.of_run("reordered", "Packets out of order."),
        drawing.of_run("late-acks", "ACKs that are late."),
    ],
)


def _measure_long(results: Results) -> dict[str, float]:
    visits = _ends(results["long"], "probe_rtt")
    return {"back_to_startup": bool(visits) and {after for _, _, after in visits} == {"startup"}}


LONG = Experiment(
    key="long",
    runs=[_run("long", "18 s", {"rtt": "1 s"}, {"rate": "1 Gbit/s", "limit": "200000 packets"})],
    measure=_measure_long,
    drawings=[drawing.of_run("long", "Throughput and window.")],
)


def _measure_bounded(results: Results) -> dict[str, float]:
    result = results["bounded"]
    lost = result.events.filter(pl.col("event") == "recovery")["t_s"].to_list()
    # Probes that ProbeRTT interrupts show nothing.
    ups = [(at, left) for at, left, after in _ends(result, "probe_bw_up") if after == "probe_bw_down" and at > 4]
    windows = [
        (_at(result, at, "cwnd_packets"), _at(result, left, "cwnd_packets"))
        for at, left, after in _ends(result, "probe_bw_down")
        if after == "probe_bw_cruise" and at > 4
    ]
    return {
        "ends_on_loss": bool(ups) and all(any(at < then <= left for then in lost) for at, left in ups),
        "most_up_rounds": max(((left - at) / _RTT_S for at, left in ups), default=math.nan),
        "window_left": max((after / before for before, after in windows), default=math.nan),
    }


BOUNDED = Experiment(
    key="bounded",
    runs=[_run("bounded", "30 s", link={"limit": "100 packets"})],
    measure=_measure_bounded,
    drawings=[drawing.of_run("bounded", "Throughput and window.")],
)


def _measure_pauses(results: Results) -> dict[str, Value]:
    samples = results["pauses"].samples.filter(pl.col("t_s") > 2).sort("t_s")
    low = (samples["throughput_mbps"] > 1) & (samples["in_flight_packets"] < 0.6 * _BDP)
    longest = dip = 0
    for each in low:
        dip = dip + 1 if each else 0
        longest = max(longest, dip)
    sent = results["pauses"].summary["flows"][0]["sent_packets"]
    return {"longest_dip_ms": 10.0 * longest if sent else None}


_ANSWERS = {"kind": "requests", "size": "40 MB", "think": "7 s", "connection": "persistent", "tls": "none"}

PAUSES = Experiment(
    key="pauses",
    runs=[_run("pauses", "40 s", {"traffic": _ANSWERS})],
    measure=_measure_pauses,
    drawings=[drawing.of_run("pauses", "Throughput and packets in flight.", "throughput_mbps", "in_flight_packets")],
)

CASES = [PHASES, LATE, AGGREGATION, POLICER, SPURIOUS, LONG, BOUNDED, PAUSES]
