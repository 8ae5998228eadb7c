"""``knee score``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import typer

from knee.cli import complete, options
from knee.cli.console import Bar, out, write_json
from knee.cli.options import option
from knee.score.requests import Request

if TYPE_CHECKING:
    from rich.console import Console

    from knee.score import Score
    from knee.score.definition import Compared


@options.takes(Request, kernel=complete.built_kernels)
def score(
    cc: Annotated[
        str,
        typer.Argument(
            metavar="X",
            help="A class of a Python file (mine.py:Mine, or mine.py if it has one), an algorithm of knee list cc, or "
            "with --ground uml the C source of a kernel module.",
            autocompletion=complete.ccs,
        ),
    ],
    versus: Annotated[
        str | None,
        option(
            options.INPUT,
            "--versus",
            metavar="NAME",
            help="Score another one too, and compare them network by network.",
        ),
    ] = None,
    as_json: options.Json = False,
    **asked: Unpack[Request],
) -> None:
    """Score a congestion control that a program wrote, in a sandbox.

    A class runs in processes of its own, without network, without files to write, with limits of time and memory, and
    sees nothing of the networks but what a sender sees. There are three stages, of 3, 7 and 60 networks; a class
    that fails one goes no further, and the command ends with 1. C sources are scored in a real kernel.
    """
    from knee.score import api, definition

    # Both are scored on the same networks.
    given = api.read(asked)
    drawn_from = given.get("seed")

    def scored(name: str) -> Score:
        with Bar("score", Path()) as bar:
            done: Score = api.evaluate(name, progress=bar, **given)
        return done

    done = scored(cc)
    given["set"] = ()
    other = None if versus is None or done.failed is not None else scored(versus)
    compared = None if other is None else definition.compared(done.judged, other.judged)
    if as_json:
        comparison = None if compared is None else {"candidate": versus, **asdict(compared)}
        write_json(
            {"candidate": cc, "held_out": drawn_from, **done.plain()} | ({"versus": comparison} if versus else {})
        )
    else:
        _show(out(), cc, drawn_from, done)
        if other is not None:
            _compare(out(), str(versus), other, compared)
    if done.failed is not None:
        raise typer.Exit(1)


def _compare(console: Console, name: str, other: Score, compared: Compared | None) -> None:
    if compared is None:
        console.print(f"It cannot be compared with {name}, which did not run in the same networks, or in too few.")
        return
    difference = f"{compared.difference:+.4f}, standard error {compared.standard_error:.4f}: {compared.verdict}"
    console.print(f"Against {name} ({other.combined_score:.4f}): {difference}.", soft_wrap=True)


def _show(console: Console, name: str, seed: int | None, done: Score) -> None:
    from knee.score.definition import PARTS

    where = "the public networks" if seed is None else f"networks drawn from seed {seed}"
    error = f" ± {done.metrics['standard_error']:.4f}" if "standard_error" in done.metrics else ""
    console.print(f"{done.combined_score:.4f}{error}  {name} on {where}", style="bold", soft_wrap=True)
    for part in PARTS:
        if part in done.metrics:
            console.print(f"  {part:<12}{done.metrics[part]:.3f}")
    stages, count = int(done.metrics["stages"]), int(done.metrics["networks"])
    console.print(f"It passed {stages} {'stage' if stages == 1 else 'stages'} and ran in {count} networks.")
    for text in ("failure", "printed", "unrepeated", "worst"):
        if text in done.artifacts:
            console.print(
                ("It printed: " if text == "printed" else "") + done.artifacts[text], soft_wrap=True, markup=False
            )
