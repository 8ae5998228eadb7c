"""The smallest network that still differs, as a file that runs by itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from tomli_w import dumps

from knee import _core
from knee.errors import KneeError
from knee.results.result import Result
from knee.scenario import Plain
from knee.study import batch
from knee.study.fidelity.networks import describe
from knee.study.fidelity.networks.compare import Network, compare, lossy
from knee.study.searches.shrink import Move, shrink, simplified
from knee.system import files
from knee.system.rights import make_folder

#: A simpler network still differs if the same figure differs by at least this part of what it did.
_KEPT = 0.5
#: What other disciplines and algorithms are exchanged for, if the difference is still there.
_QUEUE, _CCS = "pfifo", ("reno", "cubic")


def smallest(network: Network, ground: str, runs: int, jobs: int | None = None) -> Network:
    """The simplest network that was found in which the figure that differs most in ``network`` still does so.

    Raises:
        RunError: the ground does not work here.
    """
    worst = network.worst
    # Two runs show that a difference is no chance where no start moves it.
    runs = runs if network.sensitive or lossy(network.scenario) else 2
    found: dict[str, Network] = {}

    def shows(scenarios: Sequence[Plain]) -> list[bool]:
        try:
            report = compare(scenarios, ground, runs=runs, jobs=jobs)
        except KneeError:
            # None of them is a scenario.
            return [False] * len(scenarios)
        found.update({dumps(each.data): each for each in report.networks if _still(each, worst.figure, worst.size)})
        return [dumps(data) in found for data in scenarios]

    data = simplified(network.data, _exchanges(network.data), shows)
    data = shrink(data, shows)
    return found.get(dumps(data), network)


def _still(network: Network, figure: str, size: float) -> bool:
    return any(not each.holds and each.figure == figure and each.size >= _KEPT * size for each in network.differences)


def _exchanges(data: Plain) -> list[Move]:
    """Let the link have a plain queue, and each flow a plain algorithm."""

    def queue(data: Plain) -> Plain | None:
        link = {key: value for key, value in data["link"].items() if key != "queue_params"}
        if not str(link.get("limit", "packets")).endswith("packets"):
            link.pop("limit")
        return data | {"link": link | {"queue": _QUEUE}}

    def algorithm(i: int, name: str) -> Move:
        def move(data: Plain) -> Plain | None:
            if data["flows"][i]["cc"] in _CCS:
                return None
            data["flows"][i]["cc"] = name
            return data

        return move

    return [queue, *(algorithm(i, name) for i in range(len(data["flows"])) for name in _CCS)]


def both(network: Network, ground: str) -> list[Result]:
    """The results of a network in the simulator and on the other ground.

    Raises:
        RunError: a run failed.
    """
    jobs = [batch.Job(name, network.scenario, name) for name in ("sim", ground)]
    return [cast(Result, each) for each in batch.results(jobs, lambda _, result: result)]


def write(network: Network, path: Path, ground: str, head: Sequence[str] = ()) -> None:
    """Writes a network as a scenario file, with what differs in the lines above it.

    Raises:
        RunError: it cannot be written.
    """
    lines = [*head, f"With knee {_core.version()}: {describe.difference(network, network.worst, ground)}."]
    lines.append(f"knee run FILE and knee run FILE --ground {ground} run it on either ground.")
    make_folder(path.parent)
    text = "".join(f"# {line}\n" for line in lines)
    files.write(path, f"{text}\n{dumps(network.data)}")
