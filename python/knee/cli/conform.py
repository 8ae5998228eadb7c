"""``knee conform``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knee.cli import options
from knee.cli.console import out, write_json
from knee.cli.options import option
from knee.errors import InputError, KneeError, Refused

if TYPE_CHECKING:
    from rich.console import Console


def conform(
    algorithm: Annotated[
        str,
        typer.Argument(
            metavar="ALGORITHM",
            help="bbr, cubic, newreno, hystart++, lola or daimd; with --as, a class of a Python file (mine.py:Mine).",
        ),
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="A program that implements it, after --; default: knee's own."),
    ] = None,
    as_algorithm: Annotated[
        str | None, option(options.INPUT, "--as", metavar="ALGORITHM", help="Whose vectors the class has to pass.")
    ] = None,
    as_json: options.Json = False,
    allow_code: options.AllowCode = False,
) -> None:
    """Play the conformance vectors of a congestion control, and name each rule of its standard that is broken.

    A vector is a short script on an ideal path and what the standard says must follow. The command ends with 1 if a
    rule is broken.
    """
    from knee import _core

    known = dict(_core.conform_known())
    suite = as_algorithm or algorithm
    if suite not in known and suite not in known.values():
        hint = "; a class needs --as and one of these" if as_algorithm is None and ":" in algorithm else ""
        raise InputError(f"{suite} has no vectors; expected one of {', '.join(known)}{hint}.")
    if as_algorithm is not None and command:
        raise InputError("A program is named after --, and its algorithm before it; leave --as away.")
    own = None if as_algorithm is None else _class(algorithm, allow_code)
    try:
        report = json.loads(_core.conform(suite, command or None, own))
    except Exception as error:
        if own is None:
            raise
        raise KneeError(f"{own[0]} raised {type(error).__name__}: {error}.") from error
    if as_json:
        write_json(report)
    else:
        _show(out(), report)
    if any(_is_broken(one) for one in report["vectors"]):
        raise typer.Exit(1)


def _class(name: str, allow_code: bool) -> tuple[str, type]:
    """The class of a Python file."""
    from knee.own import CONTROL, Named, code_allowed, name_of

    try:
        with code_allowed(allow_code):
            found = name_of(name, CONTROL)
    except Refused as refused:
        raise InputError(f"{refused.found}; {refused.accepted}.") from None
    if not isinstance(found, Named) or not isinstance(found.of, type):
        raise InputError(f"{name} is no class of a Python file; expected one as mine.py:Mine, or leave --as away.")
    return str(found), found.of


def _is_broken(one: dict[str, Any]) -> bool:
    return one["verdict"] == "broke" or (one["verdict"] == "fail" and one["level"] != "choice")


#: Verdicts as the table has them.
_WORDS = {
    "pass": "passes", "fail": "FAILS", "broke": "BROKE", "departs": "departs", "not-reached": "not reached",
    "not-shown": "not shown", "not-told": "not told", "after": "not judged",
}  # fmt: skip


def _off(one: dict[str, Any]) -> str:
    """Where a value was not as expected."""
    seed = f", seed {one['seed']}" if one["seed"] > 1 else ""
    found = one["found"]
    shown = "not finite" if found is None else f"{found:.6g}"
    return f"step {one['step']} at {one['at_s']:.3f} s{seed}: {one['key']} is {shown}, expected {one['expected']}"


def _detail(one: dict[str, Any]) -> str:
    """What a vector says beside its verdict."""
    match one["verdict"]:
        case "fail" | "not-reached":
            return _off(one)
        case "departs":
            return f"{one['why']} ({_off(one['off'])})"
        case "not-shown":
            return f"{one['key']} is judged, and not shown"
        case "not-told":
            return f'the interface has no event "{one["event"]}"'
        case "after":
            return f"{one['vector_before']} comes first"
        case _:
            return str(one.get("what", ""))


def _show(console: Console, report: dict[str, Any]) -> None:
    vectors = report["vectors"]
    passed = sum(one["verdict"] == "pass" for one in vectors)
    title = f"{report['implementation']} by the vectors of {report['algorithm']}: {passed} of {len(vectors)} pass"
    console.print(title, style="bold", soft_wrap=True, markup=False)
    for one in vectors:
        line = f"  {_WORDS[one['verdict']]:<12}{one['vector']:<34}{one['level']:<7}{one['source']}"
        console.print(line, soft_wrap=True, markup=False, highlight=False)
        if detail := _detail(one):
            console.print(f"{'':14}{detail}", soft_wrap=True, markup=False, highlight=False)
        if one["verdict"] == "fail":
            for key in ("rule", "cost", "work"):
                console.print(f"{'':14}{key}: {one[key]}", soft_wrap=True, markup=False, highlight=False)
