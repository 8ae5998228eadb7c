"""Goals of BBRv3 and its first cases: startup, probing, steps of the bandwidth, small BDPs, losses."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import polars as pl

from knee.papers import drawing
from knee.papers.items import Value
from knee.papers.paper import Experiment, Results
from knee.papers.recipes.bbr3.common import PAYLOAD, cruising, run, states
from knee.papers.recipes.common import goodputs, number


def _measure_steady(results: Results) -> dict[str, Value]:
    result = results["steady"]
    entered = states(result)
    names = [state for _, state in entered]
    visits = [(at, left) for (at, state), (left, _) in pairwise(entered) if state == "probe_rtt"]
    inside = result.samples.filter(pl.col("state") == "probe_rtt")["cwnd_packets"]
    bdp = 100e6 / 8 / 1514 * 0.040
    gaps = [later - left for (_, left), (later, _) in pairwise(visits)]
    up = [state for state, follows in pairwise(names) if follows == "probe_bw_up"]
    return {
        "bandwidth_error": cruising(result, 100),
        "path": names[:3] == ["startup", "drain", "probe_bw_cruise"],
        "probe_after_refill": bool(up) and set(up) == {"probe_bw_refill"},
        "least_visit_ms": 1000 * min((left - at for at, left in visits), default=math.nan),
        "least_gap_s": min(gaps, default=math.nan),
        "window_of_bdp": number(inside.min()) / bdp,
        "utilization": float(result.summary["links"][0]["utilization"]),
    }


STEADY = Experiment(
    key="steady",
    runs=[run("steady", "30 s")],
    measure=_measure_steady,
    drawings=[drawing.of_run("steady", "Throughput and window.")],
)

#: When the rate changes, s.
_CHANGE_S = 15.0


def _measure_steps(results: Results) -> dict[str, Value]:
    up, down = results["up"], results["down"]
    fast = up.samples.filter((pl.col("t_s") > _CHANGE_S) & (pl.col("throughput_mbps") > 90))["t_s"].min()
    probe = next((at for at, state in states(up) if state == "probe_bw_up" and at > _CHANGE_S), math.nan)
    ends = [at for at, state in states(down) if state == "probe_bw_down" and at > _CHANGE_S]
    return {
        "rounds_to_full": None if fast is None else (float(fast) - probe) / 0.040,  # type: ignore[arg-type]
        "error_after_two_cycles": cruising(down, 10, ends[1] + 1) if len(ends) > 1 else None,
    }


STEPS = Experiment(
    key="steps",
    runs=[
        run(
            name,
            "45 s",
            link={"rate": before, "limit": limit},
            changes=[{"at": "15 s", "link": "bottleneck", "rate": after}],
        )
        for name, before, after, limit in (
            ("up", "10 Mbit/s", "100 Mbit/s", "1000 packets"),
            ("down", "100 Mbit/s", "10 Mbit/s", "400 packets"),
        )
    ],
    measure=_measure_steps,
    drawings=[
        drawing.of_run("up", "To 100 Mbit/s."),
        drawing.of_run("down", "To 10 Mbit/s."),
    ],
)


def _measure_small(results: Results) -> dict[str, Value]:
    result = results["small"]
    probing = result.samples.filter((pl.col("t_s") > 5) & (pl.col("state") != "probe_rtt"))
    return {
        "least_window": number(probing["cwnd_packets"].min()),
        "utilization": float(result.summary["links"][0]["utilization"]),
        "bandwidth_error": cruising(result, 1),
    }


SMALL = Experiment(
    key="small",
    runs=[run("small", "30 s", {"rtt": "1 ms"}, {"rate": "1 Mbit/s", "limit": "50 packets"}, warmup="5 s")],
    measure=_measure_small,
    drawings=[drawing.of_run("small", "Throughput and window.")],
)


def _measure_loss(results: Results) -> dict[str, Value]:
    shallow = results["shallow"].summary["flows"][0]
    shares = [goodputs(result)[0] / (100 * PAYLOAD) for result in results.each("random")]
    return {
        "share_at_one_percent": sum(shares) / len(shares),
        "lost_share": float(shallow["lost_packets"]) / float(shallow["sent_packets"]),
    }


LOSS = Experiment(
    key="loss",
    runs=[
        replace(run("random", "60 s", link={"loss": 0.01}, warmup="10 s"), seeds=3, quick_seeds=2),
        run("shallow", "40 s", link={"limit": "20 packets"}, warmup="10 s"),
    ],
    measure=_measure_loss,
    drawings=[drawing.of_run("random", "1 % of random loss.")],
)
