"""``knee score --ground uml``: a congestion control of a real kernel, or the C source of one, on the same networks.

The source runs in a guest's kernel, as in ``knee evaluate tcp_mine.c``: whoever may run it says so by ``--allow-code``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from knee.errors import InputError, KneeError, ScenarioError
from knee.evaluate import place
from knee.evaluate.subject import Subject, absent, subject
from knee.grounds import runner
from knee.own import IN_SOURCE, code_allowed
from knee.scenario import Plain, from_dict
from knee.score.cascade import Score, cascade
from knee.score.networks import FEW, Network
from knee.score.workers import Answer


def score(
    cc: str,
    ground: str | None,
    kernel: str | None,
    *,
    chosen: Sequence[Network],
    stages: int,
    allow_code: bool,
    progress: Callable[[float], None] | None = None,
) -> Score:
    """Scores an algorithm in a kernel, on those of the first networks that the ground takes.

    Raises:
        InputError: there is no such algorithm, it does not compile, or the ground is another.
        RunError: the ground does not work here.
    """
    if ground != "uml":
        if IN_SOURCE.fullmatch(cc) is not None:
            raise InputError(f"{cc} is a C source, which runs in a kernel alone; give --ground uml.")
        if ground in (None, "sim"):
            raise InputError("--kernel chooses a kernel of the ground uml; give --ground uml.")
        raise InputError(f"--ground {ground}: candidates are scored in virtual time; expected sim or uml.")
    if ".py" in cc:
        raise InputError(f"{cc} is a Python file; on uml a C source is scored, or an algorithm of the kernel.")
    here = place.chosen(ground, kernel)
    with code_allowed(allow_code):
        one = subject(cc, (), here)
        wanted = [each for each in chosen[:FEW] if each.stage < stages and _runs(one, here, each)]
        made = 0

        def run(some: Sequence[Network]) -> list[tuple[Answer, Answer]]:
            nonlocal made
            given = []
            for network in some:
                others = any(flow["cc"] != "X" for flow in network.data["flows"])
                without = _ran(here, absent(network.data)) if others else {}
                given.append((_ran(here, one.placed(network.data)), without))
                made += 1
                if progress is not None:
                    progress(made / len(wanted))
            return given

        return cascade(wanted, stages, run)


def _runs(one: Subject, here: place.Place, network: Network) -> bool:
    try:
        here.refuse(from_dict(here.adapted(one.placed(network.data)), where=network.name), network.name)
    except ScenarioError:
        return False
    return True


def _ran(here: place.Place, data: Plain) -> Answer:
    try:
        return {"summary": runner.run(here.adapted(data), allow_code=True).summary}
    except KneeError as error:
        return {"failed": {"kind": "engine", "said": str(error).rstrip("."), "lines": [], "printed": ""}}
