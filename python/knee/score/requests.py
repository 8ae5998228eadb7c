"""What ``knee score`` can be asked for, as a request (:mod:`knee.system.requests`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypedDict

from knee.scenario import Changes
from knee.study.requests import Set
from knee.system import requests as shared
from knee.system.requests import CODE, INPUT, TRUTH, Key


# fmt: off
class Request(TypedDict, total=False):
    """What a score is asked for."""

    set: Annotated[Changes, Key(
        INPUT, "Set a parameter of the class: cc_params.gain=0.7.", "changes", "KEY=VALUE", [], form=Set)]
    held_out: Annotated[bool, Key(
        INPUT, "Score on networks that are drawn, in place of the public ones.", TRUTH, "", False)]
    seed: Annotated[int, Key(INPUT, "What --held-out draws from; default: chance, shown.", between=(0, None))]
    stages: Annotated[int, Key(INPUT, "Go no further than this stage.", "", "N", 3, (1, 3))]
    ground: Annotated[str, replace(
        shared.GROUND, says="Where to run: in the simulator, or in a real kernel, uml; default: sim.",
        accepted="sim or uml")]
    kernel: Annotated[str, shared.KERNEL]
    jobs: Annotated[int, shared.JOBS]
    unconfined: Annotated[bool, Key(
        CODE, "Run a class with all rights of this user, as on macOS.", TRUTH, "", False)]
    allow_code: Annotated[bool, shared.ALLOW_CODE]
