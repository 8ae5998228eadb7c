"""What ``knee evaluate`` can be asked for, as a request (:mod:`knee.system.requests`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, TypedDict

from knee.scenario import Changes
from knee.study.requests import Names, Set
from knee.system import requests as shared
from knee.system.requests import INPUT, OUTPUT, TRUTH, Key


# fmt: off
class Request(TypedDict, total=False):
    """What an evaluation is asked for."""

    set: Annotated[Changes, Key(
        INPUT, "Change X's flows: cc_params.q_target='10 ms', transport=quic.", "changes", "KEY=VALUE", [], form=Set)]
    suite: Annotated[str, Key(
        INPUT, "Whose criteria: rfc9743, or bbr, the test cases of BBR's draft, for any implementation of it.",
        "the name of a suite", "SUITE", "rfc9743")]
    ground: Annotated[str, replace(
        shared.GROUND, says="Where to run: in the simulator, or in a real kernel, uml; default: sim.",
        accepted="sim or uml")]
    kernel: Annotated[str, shared.KERNEL]
    against: Annotated[Sequence[str] | str, Key(
        INPUT, "The deployed algorithms that come in X's place; default: cubic,bbr3,reno, on uml cubic,bbr,reno; "
        "of the suite bbr bbr3,bbr, on uml bbr.", "a list of names", "A,B,...", form=Names)]
    quick: Annotated[bool, Key(
        INPUT, "Run the most important scenarios only, with fewer seeds.", TRUTH, "", False)]
    only: Annotated[Sequence[str], Key(
        INPUT, "Evaluate only this criterion; may be repeated.", "a list of criteria", "CRITERION", [], form=list[str])]
    seeds: Annotated[int, Key(
        INPUT, "Run each scenario with N seeds; default: 3, and 2 with --quick.", between=(1, None))]
    worst: Annotated[bool, Key(
        INPUT, "Also search, for each criterion, for the network in which X is furthest behind the deployed ones.",
        TRUTH, "", False)]
    budget: Annotated[int, Key(
        INPUT, "Networks that each search of --worst tries; default: 40, and 10 with --quick.", between=(1, None))]
    explain: Annotated[bool, Key(
        OUTPUT, "With --suite bbr: where X is behind, name the rules of BBR's draft that it breaks, and what breaking "
        "each was seen to cost.", TRUTH, "", False)]
    jobs: Annotated[int, shared.JOBS]
    max_memory: Annotated[int | str, shared.MAX_MEMORY]
    again: Annotated[bool, shared.AGAIN]
    qlog: Annotated[bool, Key(
        OUTPUT, "Run all again, and log what senders do, in qlog/ of each run.", TRUTH, "", False)]
    allow_programs: Annotated[bool, shared.ALLOW_PROGRAMS]
    allow_code: Annotated[bool, shared.ALLOW_CODE]
