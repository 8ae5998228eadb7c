"""Runs a scenario on a ground."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from knee import _core, rows
from knee.errors import InputError, RunError, ScenarioError
from knee.folder import writing
from knee.manifest import manifest
from knee.metrics import summary
from knee.own import CongestionControl, classes
from knee.result import Result
from knee.scenario import Scenario, from_dict, load
from knee.scenario.spec import spec
from knee.scenario.toml import dumps

#: The name of the file in a folder under construction that takes the sample rows during the run.
_SPOOL = ".samples"


def run(
    scenario: str | Path | Scenario | dict[str, Any],
    ground: str | None = None,
    out: str | Path | None = None,
    *,
    report: bool = True,
    progress: Callable[[float], None] | None = None,
    command: str | None = None,
) -> Result:
    """Runs a scenario and gives its result.

    Args:
        scenario: a file, the name of a shipped scenario, a scenario, or plain data as TOML gives it.
        ground: where to run it; by default what the scenario says, and else ``"sim"``.
        out: a folder to write the result to, whole or not at all.
        report: whether that folder gets the report and its figures too.
        progress: called some 20 times a second with the fraction of simulated time that has passed.
        command: the command line that asks for the run, for the manifest.

    Raises:
        InputError: the scenario, the ground or the folder was refused; nothing has been written.
        RunError: the run was accepted and then failed.

    An exception in a congestion control written in Python comes through as it is, with a note that names the flow.
    """
    where = None
    if isinstance(scenario, dict):
        scenario = from_dict(scenario)
    elif not isinstance(scenario, Scenario):
        where = str(scenario)
        scenario = load(scenario)
    ground = ground or scenario.run.ground
    check_ground(ground)
    told = json.dumps(spec(scenario, where))
    place = writing(Path(out)) if out is not None else tempfile.TemporaryDirectory(prefix="knee-")
    with place as folder:
        result = _simulate(scenario, ground, told, Path(folder) / _SPOOL, progress, command)
        if out is not None:
            result.write_into(Path(folder), report=report)
    return result


def check_ground(ground: str) -> None:
    """Refuses the grounds that this version does not have."""
    if ground == "sim":
        return
    if ground in ("uml", "host"):
        raise InputError(f"This version has the ground sim only, not {ground}; knee doctor says what works here.")
    raise InputError(f'There is no ground "{ground}"; this version has the ground sim only.')


def _own(scenario: Scenario) -> list[tuple[str, type[CongestionControl]]]:
    named = {flow.cc for flow in scenario.flows}
    return [(name, own) for name, own in classes().items() if name in named]


def _simulate(
    scenario: Scenario,
    ground: str,
    told: str,
    spool: Path,
    progress: Callable[[float], None] | None,
    command: str | None,
) -> Result:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    begin = time.perf_counter()
    try:
        figures, sample_rows, link_rows, event_rows = _core.simulate(told, str(spool), progress, _own(scenario))
    except _core.SpecError as error:
        raise ScenarioError(scenario.name, "", "the simulator refused it", str(error).rstrip(".")) from error
    except _core.EngineError as error:
        raise RunError(f"The run of {scenario.name} failed: {error}.") from error
    wall_s = time.perf_counter() - begin
    output = json.loads(figures)
    ccs = [flow.cc for flow in scenario.flows for _ in range(flow.count)]
    link_names = [link["link"] for link in output["links"]]
    samples = rows.samples(rows.from_bytes(sample_rows, rows.SAMPLE, spool), scenario.labels, ccs)
    spool.unlink(missing_ok=True)
    return Result(
        summary=summary(scenario, ground, output, samples, wall_s),
        manifest=manifest(ground, scenario.seed, wall_s, output["packets"], started, command),
        scenario_toml=dumps(scenario.plain()),
        samples=samples,
        links=rows.links(rows.from_bytes(link_rows, rows.LINK), link_names),
        events=rows.events(rows.from_bytes(event_rows, rows.EVENT), link_names, output["event_names"]),
    )
