"""Applications and probes in the simulator beside a real kernel: the cases of ``cases.toml`` on both.

A figure is the mean time of a kind of completion of a flow, or a one-way delay of datagrams or round-trip time of a
probe: mean, median and 95th percentile. A recording, such as ``linux-6.1.csv``, has a line per figure with that
kernel's value. Both grounds draw the same arrivals and sizes from the same seed: the same transfers are compared.
"""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from knee.errors import InputError
from knee.results.result import Result
from knee.scenario import Scenario, from_dict
from knee.study import batch
from knee.study.fidelity.compare import SRTT_MS, SRTT_PERCENT
from knee.system import files

#: What is wanted of a completion time, percent, and of a delay, ms.
TIME_PERCENT, DELAY_MS = SRTT_PERCENT, SRTT_MS
#: The part of the figures that is to hold.
WANTED = 0.9
#: The recordings that ship with knee, by the kernel that ran.
RECORDINGS = {name: Path(__file__).with_name(f"{name}.csv") for name in ("linux-6.1", "linux-7.2")}
_CASES = Path(__file__).with_name("cases.toml")
#: Values in ms and counts by case, label and figure.
Found: TypeAlias = dict[tuple[str, str, str], tuple[float, int]]
COLUMNS = ("case", "label", "figure", "value_ms", "count")
#: How every recording begins, and the longest that is read, in bytes.
_BEGINNING = b"case,label,figure,"
_MAX_FILE = 16 << 20


@dataclass(frozen=True)
class KernelFigure:
    """A figure of a case on the kernel, and perhaps here; times in ms."""

    case: str
    label: str
    figure: str
    kernel_ms: float
    here_ms: float | None = None

    @property
    def is_delay(self) -> bool:
        """Whether it is a delay of datagrams; else a completion time."""
        return self.figure.startswith(("owd", "rtt"))

    @property
    def apart(self) -> float | None:
        """How far the figure here is from the kernel's: ms of a delay, percent of a completion time."""
        if self.here_ms is None:
            return None
        return self.here_ms - self.kernel_ms if self.is_delay else (self.here_ms / self.kernel_ms - 1) * 100

    @property
    def holds(self) -> bool:
        """Whether both are near enough: 10 % of a completion time, 2 ms of a delay."""
        return self.apart is not None and abs(self.apart) <= (DELAY_MS if self.is_delay else TIME_PERCENT)


def scenarios(patterns: Sequence[str] = (), kernel: str | None = None) -> dict[str, Scenario]:
    """The cases by name, on ``kernel`` where the ground is ``uml``; with ``patterns``, those that match one of them.

    Raises:
        InputError: no case matches.
    """
    with _CASES.open("rb") as file:
        known = tomllib.load(file)
    wanted = {name: case for name, case in known.items() if not patterns or any(fnmatchcase(name, p) for p in patterns)}
    if not wanted:
        raise InputError(f"No case of traffic matches {' or '.join(patterns)}; there are {', '.join(known)}.")
    run = {} if kernel is None else {"run": {"kernel": kernel}}
    return {name: from_dict({"name": name} | run | case) for name, case in wanted.items()}


def figures(result: Result) -> Iterator[tuple[str, str, float, int]]:
    """The figures of a result: label, figure, value in ms, and how many times it is of."""
    done = result.completions
    if len(done):
        rows = done.group_by("label", "what", maintain_order=True).agg(pl.col("time_ms").mean(), pl.len())
        for row in rows.sort("label", "what").iter_rows(named=True):
            yield row["label"], f"{row['what']}_mean_ms", row["time_ms"], row["len"]
    for flow in result.summary["flows"]:
        if flow.get("datagrams"):
            yield from _delays(flow["label"], "owd", flow["datagrams"], flow["datagrams"]["received"])
    for probe in result.summary.get("probes", []):
        yield from _delays(probe["label"], "rtt", probe, probe["received"])


def _delays(label: str, what: str, of: dict[str, Any], count: int) -> Iterator[tuple[str, str, float, int]]:
    for name in ("mean", "p50", "p95"):
        value = of[f"{what}_{name}_ms"]
        if value is not None:
            yield label, f"{what}_{name}_ms", value, count


def run_cases(
    patterns: Sequence[str] = (),
    ground: str = "sim",
    kernel: str | None = None,
    look: Callable[[float], None] | None = None,
) -> Found:
    """Runs the cases; gives each figure's value in ms, and how many times it is of, by case, label and name.

    ``look`` is told the fraction that is done.
    """
    jobs = [batch.Job(name, scenario, ground) for name, scenario in scenarios(patterns, kernel).items()]
    found: Found = {}
    for job, each in zip(
        jobs, batch.results(jobs, lambda job, result: list(figures(result)), progress=look), strict=True
    ):
        found |= {(job.name, label, figure): (value, count) for label, figure, value, count in each or ()}
    return found


def read(path: Path) -> list[KernelFigure]:
    """The figures of a recording.

    Raises:
        InputError: it cannot be read, a line is none of a recording, or is of a case that there is not.
    """
    try:
        rows = csv.DictReader(io.StringIO(files.read(path, _MAX_FILE).decode(), newline=""))
        recorded = [KernelFigure(row["case"], row["label"], row["figure"], float(row["value_ms"])) for row in rows]
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}).") from None
    except (KeyError, TypeError, ValueError):
        columns = ",".join(COLUMNS)
        raise InputError(f"{path} has lines that are no figures; expected the columns {columns}.") from None
    known = scenarios()
    for of in recorded:
        if of.case not in known:
            raise InputError(f"{path} has the case {of.case!r}; there are {', '.join(known)}.")
    return recorded


def is_recording(path: Path) -> bool:
    """Whether a file begins as recordings of applications and probes do; a pipe, which could be read only once, no."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_BEGINNING)) == _BEGINNING
    except OSError:
        return False


def compare(recorded: Sequence[KernelFigure], found: Found) -> list[KernelFigure]:
    """Sets each recorded figure of the cases that :func:`run_cases` ran beside what it found."""
    names = {case for case, _, _ in found}
    return [
        replace(of, here_ms=found.get((of.case, of.label, of.figure), (None,))[0])
        for of in recorded
        if of.case in names
    ]
