"""The worst scenarios that searches found, each beside runs that show what makes it so."""

from __future__ import annotations

import polars as pl

from knee.papers.items import Value
from knee.papers.paper import Experiment, Results, Run
from knee.papers.recipes.search.measures import measured, panels


def _variants(scenario: str, **changes: list[str]) -> list[Run]:
    """A scenario as it was found, and with changes; runs are named ``SCENARIO`` and ``SCENARIO-NAME``."""
    made = [Run(scenario, scenario)]
    return [*made, *(Run(f"{scenario}-{name.replace('_', '-')}", scenario, given) for name, given in changes.items())]


_LATE = ["duration=100 s", "warmup=80 s"]


LOLA = Experiment(
    key="lola",
    runs=[
        *_variants("lola-worst-delay", near=["flows.*.rtt=20 ms"], sync=["flows.*.cc_params.t_sync=10 ms"]),
        *_variants(
            "lola-worst-fairness", near=["flows.*.rtt=20 ms"], late=["duration=200 s", "warmup=150 s", "interval=1 s"]
        ),
        *_variants(
            "lola-worst-use",
            same=["changes.0.rtt=12 ms"],
            late=["duration=300 s", "warmup=200 s", "interval=1 s"],
            reset=["flows.0.cc_params.min_rtt_resets=5", "duration=30 s", "warmup=15 s"],
            single=["flows.0.cc_params.min_rtt_resets=5", "duration=30 s", "warmup=15 s", "tcp.tso=false"],
        ),
    ],
    measure=measured,
    drawings=[
        panels(
            "Queueing delay of the first finding, with the hold of 250 ms and with one of 10 ms; throughput of the "
            "flows of the second; window of the third, whose path becomes longer after a second.",
            [
                (
                    "Queueing delay (ms)",
                    "queue_delay_mean_ms",
                    {"lola-worst-delay": "t_sync 250 ms", "lola-worst-delay-sync": "t_sync 10 ms"},
                ),
                ("Throughput (Mbit/s)", "flow:throughput_mbps", {"lola-worst-fairness": ""}),
                ("cwnd (packets)", "flow:cwnd_packets", {"lola-worst-use": ""}),
            ],
        )
    ],
)


DAIMD = Experiment(
    key="daimd",
    runs=[
        *_variants(
            "daimd-worst-delay",
            factor=["flows.*.cc_params.delta0_factor=1"],
            gamma=["flows.*.cc_params.gamma=0"],
            few=["flows.*.count=1"],
            late=_LATE,
        ),
        *_variants(
            "daimd-worst-fairness",
            factor=["flows.*.cc_params.delta0_factor=1"],
            late=_LATE,
            together=["flows.1.start=0 s"],
            known=["flows.*.cc_params.rtt_min_initial=5.2 ms"],
        ),
        *_variants("daimd-worst-use", same=["changes.0.rtt=20 ms"], w0=["flows.0.cc_params.w0=20"]),
    ],
    measure=measured,
    drawings=[
        panels(
            "Queueing delay of the first finding, with the factor 20 and with 1; throughput of the flows of the "
            "second; window of the third, whose path becomes longer after a second.",
            [
                (
                    "Queueing delay (ms)",
                    "queue_delay_mean_ms",
                    {"daimd-worst-delay": "delta0_factor 20", "daimd-worst-delay-factor": "delta0_factor 1"},
                ),
                ("Throughput (Mbit/s)", "flow:throughput_mbps", {"daimd-worst-fairness": ""}),
                ("cwnd (packets)", "flow:cwnd_packets", {"daimd-worst-use": ""}),
            ],
        )
    ],
)


def _cocoa(results: Results) -> dict[str, Value]:
    first = (pl.col("event") == "buffer") & (pl.col("flow") == 1)
    events = results["cocoa-worst-loss"].events
    added = events.filter((pl.col("t_s") > 10) & (pl.col("event") == "enlarge"))["value"]
    found = measured(results)
    use = {run: results[f"cocoa-worst-{run}"].summary["run"]["utilization"] for run in ("loss", "buffer", "buffer-fq")}
    return found | {
        "loss_use": use["loss"],
        "buffer_use": use["buffer"],
        "buffer_use_fq": use["buffer-fq"],
        "delay_buffer": float(results["cocoa-worst-delay"].events.filter(first)["value"].sort()[-1]),
        "delay_late_ratio": float(found["delay_late"] or 0) / float(found["delay_late_fq"] or 1),
        "loss_buffer": float(events.filter(first).sort("t_s")["value"][-1]),
        "loss_enlargements": float(added.len()),
        "loss_added": float(added.sum()),
    }


COCOA = Experiment(
    key="cocoa",
    runs=[
        *_variants("cocoa-worst-loss", fq=["link.queue=fq"], reno=["flows.*.cc=reno"]),
        *_variants("cocoa-worst-delay", fq=["link.queue=fq"], late=_LATE, late_fq=[*_LATE, "link.queue=fq"]),
        *_variants(
            "cocoa-worst-buffer",
            fq=["link.queue=fq"],
            near=["flows.*.rtt=40 ms"],
            near_fq=["flows.*.rtt=40 ms", "link.queue=fq"],
        ),
    ],
    measure=_cocoa,
    drawings=[
        panels(
            "Queueing delay under cocoa and under fq: three flows with Illinois, of whose packets cocoa drops 46 %;"
            " CUBIC and delay-based AIMD; one flow with TCP-LP.",
            [
                (
                    f"Queueing delay (ms)\n{title}",
                    "queue_delay_mean_ms",
                    {f"cocoa-worst-{name}": "cocoa", f"cocoa-worst-{name}-fq": "fq"},
                )
                for name, title in (("loss", "Illinois"), ("delay", "CUBIC, delay-based AIMD"), ("buffer", "TCP-LP"))
            ],
        )
    ],
)
