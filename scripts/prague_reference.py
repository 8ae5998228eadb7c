"""Records UDP Prague, by Prague's authors, beside Linux's flows: the file prague-reference.csv of knee fidelity.

    python scripts/prague_reference.py FOLDER FILE.csv

FOLDER has ``udp_prague_sender`` and ``udp_prague_receiver`` (lab/l4s.md says how they are built). It takes the kernel
of Linux 7.2 (``knee linux build 7.2``) and runs each case with three starts of the second flow, since one run is one
phase. Prague's rate is what was received on the wire, with 14 bytes for Ethernet, the other flow's its goodput. Figures
begin at 14 s, after a third of the second flow's life: UDP Prague and TCP's slow start begin differently.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

import knee

DURATION_S = 40
FROM_S = 14
SHIFTS_MS = (0, 7, 13)
#: Case, rate in Mbit/s, RTT in ms, discipline as tc writes it, limit in packets; the other flow's algorithm and ECN.
CASES = (
    ("prague-dualpi2-alone", 40, 20, "dualpi2", 10000, None, "0"),
    ("prague-dualpi2-cubic", 40, 20, "dualpi2", 10000, "cubic", "0"),
    ("prague-dualpi2-cubic-ecn", 40, 20, "dualpi2", 10000, "cubic", "1"),
    ("prague-dualpi2-bbr", 40, 20, "dualpi2", 10000, "bbr", "0"),
    ("prague-codel-cubic", 50, 20, "codel,ecn", 1000, "cubic", "1"),
    ("prague-codel-reno", 50, 20, "codel,ecn", 1000, "reno", "1"),
    ("prague-fq_codel-cubic", 50, 20, "fq_codel,ecn", 10240, "cubic", "1"),
    ("prague-pfifo-cubic", 20, 20, "pfifo,limit,60", 60, "cubic", "0"),
)
HEAD = (
    *(
        "case",
        "flow",
        "cc",
        "base_rtt_ms",
        "start_s",
        "rate_mbps",
        "limit_packets",
        "qdisc",
        "ecn",
        "T",
        "window_from_s",
    ),
    *("mbps", "mbps_is", "rtt_mean_ms", "utilization", "drops", "goodput_spread", "srtt_spread", "runs"),
)


def scenario(folder: Path, rate: int, rtt: int, qdisc: str, limit: int, other: str | None, ecn: str, shift: int) -> Any:
    """A case as a scenario of the ground uml, with the second flow a second late and ``shift`` ms."""
    ends = {
        "send": f"{folder}/udp_prague_sender -c -a {{address}} -p {{port}} -q -m 1472",
        "receive": f"{folder}/udp_prague_receiver -p {{port}} -q",
    }
    flows: list[dict[str, Any]] = [{"label": "prague", "rtt": f"{rtt} ms", "program": ends}]
    if other is not None:
        flows.append(
            {"label": other, "cc": other, "rtt": f"{rtt} ms", "start": f"{1000 + shift} ms", "ecn": ecn == "1"}
        )
    name = qdisc.split(",")[0]
    link: dict[str, Any] = {"rate": f"{rate} Mbit/s", "overhead": "14 B", "burst": "1600 B"}
    link |= {"queue": name, "limit": f"{limit} packets"}
    if "ecn" in qdisc.split(",") and name == "codel":
        link["queue_params"] = {"ecn": True}
    return {
        "duration": f"{DURATION_S} s",
        "warmup": f"{FROM_S} s",
        "interval": "20 ms",
        "run": {"ground": "uml", "kernel": "7.2"},
        "link": link,
        "flows": flows,
    }


def measured(result: knee.Result) -> list[tuple[float, float]]:
    """Rate in Mbit/s and mean RTT in ms of each flow."""
    found = []
    for flow in result.summary["flows"]:
        late = result.samples.filter((pl.col("flow") == flow["flow"]) & (pl.col("t_s") > FROM_S))
        if flow["label"] == "prague":
            rate = fmean(late["throughput_mbps"])
            rtt = flow["base_rtt_ms"] + flow["queue_delay_mean_ms"]
        else:
            rate, rtt = fmean(late["goodput_mbps"]), fmean(value for value in late["srtt_ms"] if value is not None)
        found.append((rate, rtt))
    return found


def main(folder: Path, file: Path) -> None:
    """Runs all cases and writes the file."""
    rows = []
    for name, rate, rtt, qdisc, limit, other, ecn in CASES:
        runs = [
            knee.run(scenario(folder, rate, rtt, qdisc, limit, other, ecn, shift), allow_programs=True)
            for shift in SHIFTS_MS[: 1 if other is None else None]
        ]
        each = [measured(run) for run in runs]
        link = [run.summary["links"][0] for run in runs]
        for i, figures in enumerate(zip(*each, strict=True)):
            rates, rtts = zip(*figures, strict=True)
            prague = i == 0
            rows.append(
                (
                    *(name, i + 1, "prague" if prague else other, rtt, i, rate, limit, qdisc, "l4s" if prague else ecn),
                    *(DURATION_S, FROM_S, f"{fmean(rates):.3f}", "on the wire" if prague else "payload"),
                    *(f"{fmean(rtts):.2f}", f"{fmean(each['utilization'] for each in link):.4f}"),
                    *(round(fmean(each["drops"] for each in link)), f"{(max(rates) - min(rates)) / 2:.3f}"),
                    *(f"{(max(rtts) - min(rtts)) / 2:.2f}", len(runs)),
                )
            )
            print(*rows[-1], flush=True)
    with file.open("w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([HEAD, *rows])


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
