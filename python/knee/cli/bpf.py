"""``knee linux load``, ``unload``, ``status`` and ``top``: algorithms as BPF in the running kernel."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from knee.cli.console import complain, out, write_json
from knee.cli.options import INPUT, RUNNING, Json, option
from knee.cli.tables import number, table
from knee.errors import InputError
from knee.kernel import bpf
from knee.kernel.bpf import build
from knee.own import kernel_name

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Most connections that are shown.
_MOST = 20

_Name = Annotated[
    str, typer.Argument(metavar="NAME", help=f"One of {', '.join([*build.algorithms(), *build.disciplines()])}.")
]


def load(
    name: _Name,
    settings: Annotated[
        list[str] | None,
        option(INPUT, "--set", metavar="KEY=VALUE", help="A parameter, such as q_target=5ms; repeatable."),
    ] = None,
    default: Annotated[bool, option(RUNNING, "--default", help="Make it the default for new connections.")] = False,
) -> None:
    """Load a congestion control or cocoa into the running kernel, as BPF.

    It stays loaded until knee linux unload or a restart. Connections select a congestion control by name
    (TCP_CONGESTION); with --default, all new ones use it. cocoa is a queue discipline, which Linux 6.16 or later takes:
    knee linux qdisc add DEV cocoa_bpf, or tc qdisc replace dev DEV root cocoa_bpf; it is experimental. In a checkout
    the first load compiles the program and its loader, which takes a minute; a wheel has both.
    """
    given = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise InputError(f'--set: "{setting}" is not a setting; expected KEY=VALUE, such as q_target=5ms.')
        given[key] = value
    bpf.load(name, given, default=default, remark=complain)
    if name in build.disciplines():
        kind = bpf.disciplines()[0].kind
        out().print(
            f"Devices can now have {kind}: knee linux qdisc add DEV {kind}. knee linux unload {name} removes it."
        )
        return
    which = "is the default for new connections" if default else "can now be selected by connections"
    out().print(f"{kernel_name(name)} {which}; knee linux unload {name} removes it.")


def unload(name: _Name) -> None:
    """Remove a congestion control from the kernel and restore the previous default in all network namespaces.

    cocoa is removed only if no device has it.
    """
    left = bpf.unload(name)
    still = f"; {left} connections keep using it until they end" if left else ""
    out().print(f"{name} is unloaded{still}.")
    if namespaces := bpf.remaining().get(kernel_name(name)):
        out().print(_remains(name, namespaces))


def status(as_json: Json = False) -> None:
    """Show what is loaded, with which settings, and which connections use it."""
    if as_json:
        write_json(
            {
                "loaded": [asdict(each) for each in bpf.loaded()],
                "disciplines": [asdict(each) for each in bpf.disciplines()],
                "remaining": bpf.remaining(),
            }
        )
    else:
        out().print(_status())


def top(
    interval: Annotated[
        float, option(RUNNING, "--interval", metavar="SECONDS", help="Time between updates.", min=0.05, max=3600)
    ] = 1.0,
    count: Annotated[int | None, option(RUNNING, "--count", metavar="N", help="Stop after N updates.", min=1)] = None,
) -> None:
    """Watch the connections of loaded algorithms: phase, queueing delay, queued data, rounds. Ctrl-C stops it."""
    from rich.live import Live

    looks = 0
    with Live(_status(), console=out(), auto_refresh=False, transient=False) as live:
        while count is None or looks < count:
            live.update(_status(), refresh=True)
            looks += 1
            if count is None or looks < count:
                time.sleep(interval)


def _status() -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = []
    for each in bpf.loaded():
        settings = "".join(f", {key}={value}" for key, value in each.settings.items())
        default = ", default of new connections" if each.default else ""
        if each.namespaces:
            default += f", default in {_namespaces(each.namespaces)}"
        users = f"{len(each.connections)} connection{'' if len(each.connections) == 1 else 's'}"
        parts.append(Text.assemble((each.name, "bold"), f": {users}{default}{settings}"))
        if each.connections:
            parts.append(_connections(each))
    for discipline in bpf.disciplines():
        settings = "".join(f", {key}={value}" for key, value in discipline.settings.items())
        on = f"on {', '.join(discipline.devices)}" if discipline.devices else "on no device"
        parts.append(Text.assemble((discipline.kind, "bold"), f": {on}{settings}"))
    if not parts:
        parts.append(Text("Nothing is loaded; knee linux load NAME does it."))
    parts += [Text(str(part)) for name in build.algorithms() for part in build.kernel_of_storage(name)]
    parts += [Text(_remains(name, count)) for name, count in bpf.remaining().items()]
    return Group(*parts)


def _namespaces(count: int) -> str:
    return f"{count} other network namespace{'' if count == 1 else 's'}"


def _remains(name: str, count: int) -> str:
    """How to remove a default that is no longer loaded; the kernel keeps the program for it."""
    where = f"{count} network namespace{'' if count == 1 else 's'}"
    return f"{name} is not loaded but remains the default in {where}; set net.ipv4.tcp_congestion_control there."


def _connections(loaded: bpf.Loaded) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    heads = ["port", "to", "phase", "cwnd", "RTT ms", "least ms", "queueing ms", "queued kB", "rounds"]
    rows = table(None, heads, text=3)
    # Most queued data first.
    shown = sorted(loaded.connections, key=lambda each: -each.q_data)[:_MOST]
    for each in shown:
        to = f"[{each.remote}]:{each.remote_port}" if ":" in each.remote else f"{each.remote}:{each.remote_port}"
        rows.add_row(
            str(each.local_port),
            to,
            each.phase,
            number(each.cwnd),
            *(number(delay / 1e3) for delay in (each.rtt_now, each.rtt_min, each.q_delay)),
            number(each.q_data / 1e3),
            number(each.rounds),
        )
    more = len(loaded.connections) - len(shown)
    return Group(rows, Text(f"and {more} more", style="dim")) if more else rows
