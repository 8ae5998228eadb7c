"""``knee import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from knee.cli import options
from knee.cli.console import out, write_json
from knee.cli.options import option


def import_(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A mahimahi trace, JSON of irtt or iperf3, flent.gz, or CSV of LENS or with time and rate.",
        ),
    ],
    rate: Annotated[
        str | None,
        option(options.INPUT, "--rate", metavar="RATE", help="The link's rate, where the file has none: '50 Mbit/s'."),
    ] = None,
    rtt: Annotated[
        str | None,
        option(
            options.INPUT, "--rtt", metavar="TIME", help="The base round-trip time; default: the least of the file."
        ),
    ] = None,
    unit: Annotated[
        str | None,
        option(options.INPUT, "--unit", metavar="UNIT", help="Of rates in a CSV whose head has no unit: mbps, kbps."),
    ] = None,
    average: Annotated[
        str | None,
        option(
            options.INPUT, "--average", metavar="TIME", help="Record means over intervals of this length: '100 ms'."
        ),
    ] = None,
    folder: Annotated[Path | None, options.out("Folder for the files; default: imported/NAME.")] = None,
    as_json: options.Json = False,
) -> None:
    """Make a scenario of a measurement of a real path.

    Writes recordings of rate, delay and loss, and a scenario in which one flow downloads over that path. Says what the
    measurement does not tell, and what stands in its place.
    """
    from knee.study import importing

    target = folder or Path("imported") / (path.name.split(".")[0] or "measurement")
    imported = importing.import_measurement(path, target, rate=rate, rtt=rtt, unit=unit, average=average)
    if as_json:
        names = [str(each) for each in imported.files]
        write_json(
            {
                "format": imported.measurement.format,
                "duration_s": imported.measurement.duration_s,
                "scenario": str(imported.scenario),
                "files": names,
                "unknown": list(imported.unknown),
            }
        )
        return
    console = out()
    console.print(
        f"{path.name}: {imported.measurement.format}, {imported.measurement.duration_s:.4g} s.", soft_wrap=True
    )
    for each in imported.files:
        console.print(f"  {each}", soft_wrap=True)
    console.print("Not in the file:")
    for sentence in imported.unknown:
        console.print(f"  - {sentence}", soft_wrap=True)
    console.print(f"Run it: knee run {imported.scenario}", soft_wrap=True)
