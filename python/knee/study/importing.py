"""``knee import``: from a measurement of a path to recordings and a scenario that uses them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from knee.errors import FolderError, InputError, Refused, input_errors
from knee.results import measured
from knee.results.measured import Measurement
from knee.results.measured.series import Series, Way
from knee.scenario import timed
from knee.scenario.units import format_rate, format_time, parse_rate, parse_time
from knee.system import files
from knee.system.rights import make_folder
from knee.system.text import visible

#: Where a measurement says nothing: a rate that many links have, a round-trip time within a country.
_RATE, _RTT = "100 Mbit/s", "40 ms"
_WORD = {"rate": "rate_mbps", "extra": "delay_ms", "loss": "loss"}
_KEY = {"rate": "rate_trace", "extra": "delay_trace", "loss": "loss_trace"}


@dataclass(frozen=True)
class Imported:
    """The files written for a measurement.

    Attributes:
        measurement: what was read.
        scenario: the scenario's file.
        files: all files.
        unknown: what the measurement does not say, with what stands in its place, a sentence each.
    """

    measurement: Measurement
    scenario: Path
    files: Sequence[Path]
    unknown: Sequence[str]


def import_measurement(
    path: Path,
    folder: Path,
    *,
    rate: str | None = None,
    rtt: str | None = None,
    unit: str | None = None,
    average: str | None = None,
) -> Imported:
    """Writes recordings of a measurement and a scenario with one download over it.

    Args:
        path: the measurement.
        folder: where to write; made if needed.
        rate: the rate of the link, where the measurement has none.
        rtt: the base round-trip time, where it has none or another is wanted.
        unit: of rates in CSV files whose head states none.
        average: means over intervals of this length in place of each value.

    Raises:
        InputError: a quantity cannot be read.
        FolderError: the file is of no known format, or something of another name is there already.
    """
    if unit is not None and unit.lower() not in timed.RATES:
        raise InputError(f"--unit {unit} is no unit of a rate; expected one such as mbps, kbps or Mbit/s.")
    step = None if average is None else _quantity("--average", average) / 1e9
    found = measured.read(path, unit)
    contents, keys = _recordings(path, found, step)
    text, unknown = _scenario(path, found, keys, rate, rtt)
    contents[f"{found.name}.toml"] = text
    there = [folder / name for name, content in contents.items() if _other(folder / name, content)]
    if there:
        raise FolderError(f"{there[0]} is there already with another content; name another folder with --out.")
    try:
        make_folder(folder)
    except OSError as error:
        raise files.unwritable(folder, error) from None
    for name, content in contents.items():
        files.write(folder / name, content)
    return Imported(found, folder / f"{found.name}.toml", [folder / name for name in contents], unknown)


def _quantity(option: str, text: str) -> int:
    with input_errors(f"{option}: "):
        value = parse_time(text)
    if value <= 0:
        raise InputError(f"{option} is {text}; expected a time above zero.")
    return value


def _other(path: Path, content: str) -> bool:
    files.check_output(path)
    return path.exists() and path.read_bytes() != content.encode()


def _recordings(
    path: Path, found: Measurement, step: float | None
) -> tuple[dict[str, str], dict[tuple[str, Way], str]]:
    """The files, and by kind and direction the name of each."""
    if found.opportunities:
        name = f"{found.name}.trace"
        lines = "".join(f"{time}\n" for time in found.opportunities)
        return {name: f"# Opportunities to deliver 1500 bytes, in ms.\n{lines}"}, {("trace", "down"): name}
    contents: dict[str, str] = {}
    keys: dict[tuple[str, Way], str] = {}
    begin = min(one.t_s[0] for one in found.series)
    for one in found.series:
        if one.kind == "delay":
            continue
        # All recordings begin together, as a scenario replays them.
        shown = Series(one.kind, one.way, [t - begin for t in one.t_s], one.values)
        if shown.t_s[0] > 0:
            shown = Series(one.kind, one.way, [0.0, *shown.t_s], [shown.values[0], *shown.values])
        shown = _means(shown, step) if step is not None else shown
        if len(shown.t_s) > timed.MOST_ROWS:
            raise FolderError(
                f"{found.name} has {len(shown.t_s):,} values, and a recording at most {timed.MOST_ROWS:,}; "
                "give the means of longer intervals, as with --average '100 ms'."
            )
        kind: timed.Kind = "delay" if one.kind == "extra" else one.kind
        base = {"rate": 1e6, "delay": 1e6, "loss": 1.0}[kind]
        count = range(1, len(shown.t_s) + 1)
        try:
            timed.checked(
                str(path), kind, [t * 1e9 for t in shown.t_s], [v * base for v in shown.values], count, f"{kind}"
            )
        except Refused as refused:
            raise FolderError(f"{refused.found}; {refused.accepted}.") from None
        name = f"{found.name}-{one.way or 'both'}-{kind}.csv"
        rows = "".join(f"{t:.9g},{value:.6g}\n" for t, value in zip(shown.t_s, shown.values, strict=True))
        contents[name] = f"time_s,{_WORD[one.kind]}\n{rows}"
        keys[one.kind, one.way] = name
    return contents, keys


def _means(one: Series, step: float) -> Series:
    """The means over intervals of ``step`` s; an interval without values has those before it, and so no row."""
    sums: dict[int, tuple[float, int]] = {}
    for t, value in zip(one.t_s, one.values, strict=True):
        place = math.floor(t / step + 1e-9)
        total, count = sums.get(place, (0.0, 0))
        sums[place] = (total + value, count + 1)
    places = sorted(sums)
    return Series(one.kind, one.way, [p * step for p in places], [sums[p][0] / sums[p][1] for p in places])


def _scenario(
    path: Path, found: Measurement, keys: dict[tuple[str, Way], str], rate: str | None, rtt: str | None
) -> tuple[str, list[str]]:
    unknown = list(found.unknown)
    # Data goes down, unless only the way up was measured.
    down: Way = "down" if any(way == "down" for _, way in keys) or not keys else "up"
    up: Way = "up" if down == "down" else "down"
    sides = []
    for way in (down, up):
        lines = [f'{_KEY[kind]} = "{keys[kind, way]}"' for kind in _KEY if (kind, way) in keys]
        if ("trace", way) in keys:
            lines.insert(0, f'trace = "{keys["trace", way]}"')
        if lines and not any(line.startswith(("trace", "rate_trace")) for line in lines):
            with input_errors("--rate: "):
                lines.insert(0, f'rate = "{format_rate(parse_rate(rate or _RATE))}"')
            if rate is None:
                unknown.append(f"The rates: {_RATE} stands for each direction's; --rate sets another.")
        sides.append(lines)
    if rate is not None and any(kind in ("rate", "trace") for kind, _ in keys):
        raise InputError(f"--rate is given, and {path} has rates of its own; leave it out.")
    base = format_time(_quantity("--rtt", rtt)) if rtt is not None else _base(found, unknown)
    unknown.append("The queue before the link: pfifo with 100 ms stands for it.")
    duration = max(1, math.floor(found.duration_s))
    link = [*sides[0], 'queue = "pfifo"', 'limit = "100 ms"']
    if sides[1]:
        link.append(f'reverse = {{ {", ".join(sides[1])}, limit = "100 ms" }}')
    notes = "\n".join(f"# - {sentence}" for sentence in dict.fromkeys(unknown))
    source = visible(path.name).replace('"', "'").replace("\\", "/")
    text = "\n".join(
        [
            f"# A path as {source} ({found.format}) has it, made by knee import.",
            "# Not in the file:",
            notes,
            f'title = "{found.format}: {source}"',
            f'duration = "{duration} s"',
            "",
            "[link]",
            *link,
            "",
            "[[flows]]",
            'cc = "cubic"',
            f'rtt = "{base}"',
            "",
        ]
    )
    return text, list(dict.fromkeys(unknown))


def _base(found: Measurement, unknown: list[str]) -> str:
    if found.rtt_ms is None or found.rtt_ms <= 0:
        unknown.append(f"The base round-trip time: {_RTT} stands for it; --rtt sets another.")
        return _RTT
    return f"{found.rtt_ms:.4g} ms"
