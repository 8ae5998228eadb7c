"""``knee conform``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knee.cli import options
from knee.cli.console import out, write_json
from knee.cli.options import option
from knee.errors import InputError, KneeError, Refused
from knee.judging.vectors import WORDS, detail, is_broken

if TYPE_CHECKING:
    from rich.console import Console

    from knee.scenario.registry import Entry


def conform(
    algorithm: Annotated[
        str,
        typer.Argument(
            metavar="ALGORITHM",
            help="bbr, cubic, newreno, hystart++, lola or daimd; with --as, a congestion control of knee list cc or a "
            "class of a Python file (mine.py:Mine).",
        ),
    ],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="A program that implements it, after --; default: knee's own."),
    ] = None,
    as_algorithm: Annotated[
        str | None, option(options.INPUT, "--as", metavar="ALGORITHM", help="Whose vectors it has to pass.")
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
        hint = (
            "" if as_algorithm is not None else "; for a class or another congestion control, add --as and one of these"
        )
        raise InputError(f"{suite} has no vectors; expected one of {', '.join(known)}{hint}.")
    if as_algorithm is not None and command:
        raise InputError("A program is named after --, and its algorithm before it; leave --as away.")
    own = flow = None
    if as_algorithm is not None:
        found = _found(algorithm, allow_code)
        own, flow = (found, None) if isinstance(found, tuple) else (None, (found.name, "{}"))
    try:
        report = json.loads(_core.conform(suite, command or None, own, flow))
    except Exception as error:
        if own is None:
            raise
        raise KneeError(f"{own[0]} raised {type(error).__name__}: {error}.") from error
    if as_json:
        write_json(report)
    else:
        _show(out(), report)
    if any(is_broken(one) for one in report["vectors"]):
        raise typer.Exit(1)


def _found(name: str, allow_code: bool) -> tuple[str, type] | Entry:
    """A class of a Python file, or a congestion control."""
    from knee.own import CONTROL, Named, code_allowed, name_of
    from knee.scenario import registry

    try:
        with code_allowed(allow_code):
            found = name_of(name, CONTROL)
    except Refused as refused:
        raise InputError(f"{refused.found}; {refused.accepted}.") from None
    if isinstance(found, Named) and isinstance(found.of, type):
        return str(found), found.of
    if not isinstance(found, str) or found not in registry.flow_controls():
        raise InputError(
            f"{name} is no class of a Python file and no congestion control; expected one as mine.py:Mine, or one of "
            "knee list cc."
        )
    return registry.flow_controls()[found]


def _show(console: Console, report: dict[str, Any]) -> None:
    vectors = report["vectors"]
    passed = sum(one["verdict"] == "pass" for one in vectors)
    title = f"{report['implementation']} by the vectors of {report['algorithm']}: {passed} of {len(vectors)} pass"
    console.print(title, style="bold", soft_wrap=True, markup=False)
    for one in vectors:
        line = f"  {WORDS[one['verdict']]:<12}{one['vector']:<34}{one['level']:<7}{one['source']}"
        console.print(line, soft_wrap=True, markup=False, highlight=False)
        if said := detail(one):
            console.print(f"{'':14}{said}", soft_wrap=True, markup=False, highlight=False)
        if one["verdict"] == "fail":
            for key in ("rule", "cost", "work"):
                console.print(f"{'':14}{key}: {one[key]}", soft_wrap=True, markup=False, highlight=False)
