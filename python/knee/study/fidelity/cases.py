"""The cases of a reference file: a row per flow, what was set up and what the kernel did.

Columns that a file must have: ``case``, ``flow``, ``rate`` and ``T`` (the run's length, s), ``base_rtt_ms``,
``start_s``, ``goodput_mbps`` and ``srtt_mean_ms``. Columns that it may have:

- ``cc``: without it, the algorithm is the first word of the case's name (``lola-100`` is LoLa).
- ``qdisc``: as tc writes it, with commas; without it, a FIFO that does not fill.
- ``loss_pct``, ``step``: random loss and a change of the rate.
- ``window_from_s``: from which second of the run the kernel's figures count; without it, over the last two thirds of
  the flow's life. A file with it comes from a rig with Linux's ``fq`` at the sender, so flows are paced.
- ``goodput_spread``, ``srtt_spread``: half the range over the kernel's repeated runs.

A file with the column ``fct_s`` calls some columns otherwise (`OTHERWISE`) and has more of them: ``dir`` (``R``: data
go through the link's reverse direction, whose rate and queue are ``rrate`` and ``rq``), ``bytes`` (above 0: a transfer
of that size, and ``fct_s`` the seconds from its start until all of it is acknowledged), ``ecn`` (1: capable flows;
``accurate`` and ``l4s`` as in a scenario) and ``sndq`` (``fq``: the sender paces). Files without ``fct_s`` may have
all of these but ``bytes``.

A file with the column ``mbps_is`` is of authors' own programs over UDP: it has ``rate_mbps`` and ``limit_packets`` for
the link, and ``mbps`` and ``rtt_mean_ms`` for the figures; without ``qdisc`` the link has a FIFO of that limit. What a
rate counts depends on who printed it (`FIGURES`).
"""

from __future__ import annotations

import ast
import csv
import io
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from knee.errors import InputError
from knee.scenario.units import shown
from knee.system import files

#: Columns of a file of authors' programs.
PROGRAMS = (
    *("case", "flow", "cc", "base_rtt_ms", "start_s", "rate_mbps", "limit_packets", "T"),
    *("mbps", "mbps_is", "rtt_mean_ms"),
)
#: What the rate of an authors' program counts: received on the wire, by default over the whole life, or payload sent
#: over the last two thirds. Kernel flows beside them: goodput.
FIGURES: dict[str, Literal["wire", "sent"]] = {"copa": "wire", "prague": "wire", "vivace": "sent"}

#: Words of the column ``ecn``, and the key of a flow that they stand for.
_ECN: dict[str, bool | str] = {"0": False, "1": True, "accurate": "accurate", "l4s": "l4s"}
#: Columns of a file with completion times, by the names in other files.
OTHERWISE = {"base_rtt_ms": "rtt", "start_s": "start", "srtt_mean_ms": "srtt_ms"}

SETUP = ("case", "flow", "rate", "T", "base_rtt_ms", "start_s")
NEEDED = (*SETUP, "goodput_mbps", "srtt_mean_ms")

#: The longest reference file, bytes: they have a row per flow.
_MAX_FILE = 64 << 20
#: tc's units of rate that the reference files use, in bit/s.
_TC_RATES = {"gbit": 10**9, "mbit": 10**6, "kbit": 10**3, "bit": 1}

#: Names of cases name files of series, and are written to CSV files, where a spreadsheet runs =, +, - and @.
_NAME = re.compile(r"\w[^/]{0,99}")


@dataclass(frozen=True)
class KernelFlow:
    """A flow of a case and what the kernel measured of it.

    Attributes:
        number: counted from 1.
        start_s: when it starts, in seconds of the run.
        goodput_mbps: payload acknowledged, over the window.
        srtt_ms: mean of the smoothed RTT, over the window.
        goodput_spread_mbps: half the range over the kernel's runs; 0 where there was one.
        srtt_spread_ms: the same of the smoothed RTT.
        rate_is: what ``goodput_mbps`` is: payload acknowledged, payload sent, or what was received on the wire (then
            ``srtt_ms`` is the mean of all RTTs, and the window the whole life unless the file has another), or a
            transfer's size over its completion time (then ``srtt_ms`` is that time).
        beside_program: whether it was recorded in a run of authors' programs.
        reverse: whether its data go through the link's reverse direction.
        transfer_bytes: the payload of a finite transfer.
        ecn: whether its packets are ECN-capable, or "accurate" or "l4s" as in a scenario.
        paced: whether Linux's ``fq`` paces it at the sender.
    """

    number: int
    cc: str
    base_rtt_ms: float
    start_s: float
    goodput_mbps: float
    srtt_ms: float
    goodput_spread_mbps: float
    srtt_spread_ms: float
    rate_is: Literal["goodput", "wire", "sent", "transfer"] = "goodput"
    beside_program: bool = False
    reverse: bool = False
    transfer_bytes: int | None = None
    ecn: bool | str = False
    paced: bool = False


@dataclass(frozen=True)
class Case:
    """A case: its link and times, and its flows.

    Attributes:
        rate_bps: the bottleneck's rate at the start, counted with 14 bytes a packet for Ethernet.
        duration_s: the run's length; a flow lives from its start to there.
        qdisc: the queue discipline as tc writes it, spaces as commas; None where the file does not say.
        loss: probability of random loss before the bottleneck.
        steps: (second, new rate in bit/s) of the bottleneck.
        window_from_s: from when figures count, in seconds of the run; None: the last two thirds of each flow's life.
        reverse_rate_bps: the rate of the link's reverse direction; None: it never queues.
        reverse_qdisc: its queue discipline, as ``qdisc``.
    """

    name: str
    rate_bps: int
    duration_s: float
    qdisc: str | None
    loss: float
    steps: tuple[tuple[float, int], ...]
    window_from_s: float | None
    reverse_rate_bps: int | None
    reverse_qdisc: str | None
    flows: tuple[KernelFlow, ...]

    def window_s(self, flow: KernelFlow, late_s: float = 0.0) -> tuple[float, float]:
        """From when to when the figures of ``flow`` count, in seconds since it was connected, ``late_s`` late."""
        start = flow.start_s + late_s
        life = self.duration_s - start
        if flow.rate_is == "wire" and self.window_from_s is None:
            return 0.0, life
        begin = life / 3 if self.window_from_s is None else self.window_from_s - start
        return begin, life

    def rate_mbps(self, flow: KernelFlow) -> float:
        """The bottleneck's mean rate over the window of ``flow``: what a point of goodput is a hundredth of."""
        if flow.reverse and self.reverse_rate_bps is not None:
            return self.reverse_rate_bps / 1e6
        begin, end = (flow.start_s + t for t in self.window_s(flow))
        carried, at, rate = 0.0, begin, self.rate_bps
        for when, new in self.steps:
            if when > at:
                carried += rate * (min(when, end) - at)
                at = min(when, end)
            rate = new
        return (carried + rate * (end - at)) / (end - begin) / 1e6


def read(path: str | Path, patterns: Iterable[str] = (), *, figures: bool = True) -> list[Case]:
    """The cases of a reference file, in its order.

    Args:
        path: a CSV file.
        patterns: names of the cases wanted, with ``*`` and ``?`` as in a shell; none: all.
        figures: whether a kernel's figures have to be there, or the set-up alone does; then they are 0.

    Raises:
        InputError: where the file cannot be read as that, or a pattern matches no case.
    """
    try:
        reader = csv.DictReader(io.StringIO(files.read(Path(path), _MAX_FILE).decode(), newline=""))
        found = reader.fieldnames or ()
        needed: tuple[str, ...] = PROGRAMS if "mbps_is" in found else NEEDED if figures else SETUP
        if "fct_s" in found:
            needed = tuple(OTHERWISE.get(name, name) for name in needed)
        missing = [name for name in needed if name not in found]
        if missing:
            raise InputError(f"{path} has no column {missing[0]}; expected the columns {', '.join(needed)}.")
        rows = [(reader.line_num, _complete(path, reader, row)) for row in reader]
        if needed is PROGRAMS:
            rows = [(line, _of_program(row)) for line, row in rows]
        elif "fct_s" in found:
            rows = [(line, row | {name: row[other] for name, other in OTHERWISE.items()}) for line, row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"{path} cannot be read ({reason}); expected a CSV file.") from None
    groups: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for line, row in rows:
        if not _NAME.fullmatch(row["case"]) or not row["case"].isprintable():
            accepted = "expected up to 100 printable characters without /, of which the first is a letter or a digit"
            raise InputError(f"{path}, line {line}: the case {row['case']!r} is no name; {accepted}.")
        groups.setdefault(row["case"], []).append((line, row))
    if not groups:
        raise InputError(f"{path} has no cases; expected one row per flow.")
    names = list(groups)
    patterns = list(patterns)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise InputError(f'No case of {path} matches "{pattern}"; it has {", ".join(names)}.')
    wanted = [name for name in names if not patterns or any(fnmatchcase(name, p) for p in patterns)]
    return [_case(path, name, groups[name], figures) for name in wanted]


def _complete(path: str | Path, reader: csv.DictReader[str], row: dict[str, str]) -> dict[str, str]:
    """A row that has as many cells as there are columns."""
    columns = len(reader.fieldnames or ())
    # The reader fills up with None, and puts cells beyond the last column under None.
    more = len(row.get(None) or ())  # type: ignore[call-overload]
    cells = columns + more - sum(value is None for value in row.values())
    if cells != columns:
        raise InputError(f"{path}, line {reader.line_num}: {cells} cells in {columns} columns.")
    return row


def _case(path: str | Path, name: str, rows: list[tuple[int, dict[str, str]]], figures: bool) -> Case:
    cases = [_row(f"{path}, line {line}", row, figures) for line, row in rows]
    first, flows = cases[0][0], tuple(flow for _, flow in cases)
    if any(case != first for case, _ in cases):
        raise InputError(f"{path}: the rows of {name} do not agree on the link or the length of the run.")
    if [flow.number for flow in flows] != list(range(1, len(flows) + 1)):
        raise InputError(f"{path}: the flows of {name} are not numbered 1, 2, ... in order.")
    return Case(name, *first, flows)


def _of_program(row: dict[str, str]) -> dict[str, str]:
    """A row of a file of authors' programs in the other files' columns."""
    return row | {
        "rate": f"{row['rate_mbps']}mbit",
        "qdisc": row.get("qdisc") or f"pfifo,limit,{row['limit_packets']}",
        "goodput_mbps": row["mbps"],
        "srtt_mean_ms": row["rtt_mean_ms"],
    }


_Shared = tuple[int, float, str | None, float, tuple[tuple[float, int], ...], float | None, int | None, str | None]


def _row(where: str, row: dict[str, str], figures: bool) -> tuple[_Shared, KernelFlow]:
    try:
        shared = (
            _rate(row["rate"]),
            _positive(row, "T"),
            row.get("qdisc") or None,
            _number(row, "loss_pct", 0.0) / 100,
            _steps(row.get("step") or ""),
            _number(row, "window_from_s", None) if row.get("window_from_s") else None,
            _rate(row["rrate"]) if row.get("rrate") else None,
            row.get("rq") or None,
        )
        size = round(_number(row, "bytes", 0.0))
        flow = KernelFlow(
            number=int(row["flow"]),
            cc=row.get("cc") or row["case"].split("-")[0],
            base_rtt_ms=_positive(row, "base_rtt_ms"),
            start_s=_number(row, "start_s"),
            goodput_mbps=_number(row, "goodput_mbps") if figures else 0.0,
            srtt_ms=_delay_ms(row, size) if figures else 0.0,
            goodput_spread_mbps=_number(row, "goodput_spread", 0.0),
            srtt_spread_ms=_number(row, "srtt_spread", 0.0),
            rate_is="transfer" if size else FIGURES.get(row["cc"], "goodput") if "mbps_is" in row else "goodput",
            beside_program="mbps_is" in row,
            reverse=_word(row, "dir", ("F", "R")) == "R",
            transfer_bytes=size or None,
            ecn=_ECN[_word(row, "ecn", tuple(_ECN))],
            paced=_word(row, "sndq", ("", "fq")) == "fq",
        )
        if flow.reverse and shared[6] is None:
            raise ValueError("dir is R, but there is no rrate; expected the rate of the reverse direction")
        if not max(flow.start_s, shared[5] or 0.0) < shared[1]:
            raise ValueError("the flow's start or window is not before the end T")
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: {error}.") from None
    return shared, flow


def _word(row: dict[str, str], key: str, words: tuple[str, ...]) -> str:
    """One of some words; an empty cell or no such column is the first."""
    word = row.get(key) or words[0]
    if word not in words:
        accepted = " or ".join(each or "nothing" for each in words)
        raise ValueError(f"{key} is {shown(word)}; expected {accepted}")
    return word


def _delay_ms(row: dict[str, str], size: int) -> float:
    """The mean smoothed RTT; of a finite transfer the time until it is complete."""
    return _positive(row, "fct_s") * 1000 if size else _positive(row, "srtt_mean_ms")


def _number(row: dict[str, str], key: str, default: float | None = None) -> float:
    text = row.get(key) or ""
    if not text and default is not None:
        return default
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{key} is {shown(text)}; expected a number") from None
    if not 0 <= value < math.inf:
        raise ValueError(f"{key} is {value}; expected a number from 0")
    return value


def _positive(row: dict[str, str], key: str) -> float:
    value = _number(row, key)
    if value == 0:
        raise ValueError(f"{key} is 0; expected a number above 0")
    return value


def _rate(text: str) -> int:
    """A rate as tc writes it, such as ``100mbit``, in bit/s."""
    for unit, scale in _TC_RATES.items():
        number = text.removesuffix(unit)
        if number != text:
            try:
                rate = round(float(number) * scale)
            except (ValueError, OverflowError):
                break
            if rate > 0:
                return rate
    raise ValueError(f"{shown(text)} is not a rate; expected one such as 100mbit")


def _steps(text: str) -> tuple[tuple[float, int], ...]:
    """``(30, '10mbit')``, or several in a list, as (second, bit/s)."""
    if not text:
        return ()
    try:
        found = ast.literal_eval(text)
        pairs = found if isinstance(found, list) else [found]
        return tuple(sorted((float(when), _rate(rate)) for when, rate in pairs))
    except (ValueError, TypeError, SyntaxError, AttributeError, RecursionError, MemoryError):
        raise ValueError(f"the step {shown(text)} is not valid; expected one such as (30, '10mbit')") from None
