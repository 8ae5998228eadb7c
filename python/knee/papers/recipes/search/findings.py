"""The worst scenarios that searches found, each beside runs that show what makes it so."""

from __future__ import annotations

import polars as pl

from knee.papers.items import Quantities, Value
from knee.papers.paper import Experiment, Results, Run
from knee.papers.recipes.search.measures import measured, panels


def _variants(scenario: str, **changes: list[str]) -> list[Run]:
    """A scenario as it was found, and with changes; runs are named ``SCENARIO`` and ``SCENARIO-NAME``."""
    made = [Run(scenario, scenario)]
    return [*made, *(Run(f"{scenario}-{name.replace('_', '-')}", scenario, given) for name, given in changes.items())]


_LATE = ["duration=100 s", "warmup=80 s"]


def _lola_says(found: Quantities) -> str:
    return (
        f"LoLa's delay is at most {found['delay']:.0f} ms where rates are 50 Mbit/s or more: its target is missed by"
        " what flows add while they cannot see it. Fairness comes, and late where RTTs are long. What breaks LoLa "
        "is a path that becomes longer by more than its target: it yields to a queue that is not there. The paper's"
        " remedy, to forget the minimum RTT after 100 decreases, takes 100 s here; with five in place of 100 the link"
        f" is in use for {100 * float(found['use_reset'] or 0):.0f} % from 15 to 30 s."
    )


LOLA = Experiment(
    key="lola",
    title="LoLa: delay, fairness, use of the link",
    about="The worst that knee search lola-delay, lola-fairness and lola-use found in 150 trials each, shrunk. One "
    "or two groups of flows on 50 to 100 Mbit/s (10 to 100 for one flow), RTTs from 5 to 200 ms, jitter up to"
    " 2 ms (10 ms), and for lola-use a base RTT that changes. Each is run as it was found, and with what is "
    "said to cause it switched.",
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
    conclusion=_lola_says,
)


def _daimd_says(found: Quantities) -> str:
    return (
        f"Many flows on short RTTs build a queue that does not go away: a 95th percentile of {found['delay']:.0f} ms, "
        f"and from 80 to 100 s {found['delay_late']:.0f} ms. Delta0 = 20 (RTTmax - RTTmin) keeps their backoffs apart, "
        "and grows with the queue; the paper gives no factor, and 20 is knee's, from the setting of its Fig. 6. With 1 "
        f"it is {found['delay_factor']:.0f} ms. Unfairness has another cause: a flow that starts late, at a queue that "
        "never empties, takes part of it for the path, and keeps most of the link. Delta0 changes little (Jain's index "
        f"{found['jain']:.2f}, with 1 {found['jain_factor']:.2f}); with starts at the same time it is "
        f"{found['jain_together']:.2f}, and where every flow knows the path's RTT {found['jain_known']:.3f}. The third "
        "is what happens to any algorithm that never renews its minimum RTT."
    )


DAIMD = Experiment(
    key="daimd",
    title="Delay-based AIMD: delay, fairness, use of the link",
    about="The worst that knee search daimd-delay, daimd-fairness and daimd-use found in 150 trials each, shrunk, "
    "within the same bounds as LoLa. 72 of the 150 trials of daimd-delay had a 95th percentile of more than 40 ms.",
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
    conclusion=_daimd_says,
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


def _cocoa_says(found: Quantities) -> str:
    return (
        "Where does cocoa lose throughput against fq? Nowhere within these bounds: in 150 trials of knee search "
        "cocoa-use the link was in use for at least 99.1 % of what it was under fq. What it costs is packets. A sender "
        "that never lets its queue run empty has its buffer cut to one packet, and loses "
        f"{100 * float(found['loss'] or 0):.0f} %; enlargements that are less than a packet are none. The longest "
        "delay is that of a CUBIC flow whose buffer cocoa doubles twice in slow start, and adapts only when it is full "
        f"again, 17 s later; from 80 to 100 s it is {found['delay_late']:.0f} ms, and under fq "
        f"{found['delay_late_fq']:.0f}. TCP-LP waits longer than under fq "
        "because it needs more than 100 packets to fill the link, and cocoa gives them to it."
    )


COCOA = Experiment(
    key="cocoa",
    title="cocoa beside fq: losses, delay, use of the link",
    about="The worst that knee search cocoa-loss and cocoa-delay found in 150 trials each, shrunk: two groups of up"
    " to four flows of any loss-based, delay-based or hybrid algorithm, 5 to 50 Mbit/s, RTTs from 5 to 200 "
    "ms. Each is compared with fq, whose flows may hold 100 packets each, with the same seed.",
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
    conclusion=_cocoa_says,
)
