"""``knee linux``: the kernel parts."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import typer

from knee.cli import bpf, complete
from knee.cli.console import Bar, out
from knee.cli.options import DEVICE, KERNEL, OUTPUT, RUNNING, command, group, option
from knee.cli.tables import number, table
from knee.errors import InputError, Refused
from knee.scenario.registry import Param
from knee.system import extras

app = group(about="Build, load and watch the kernel parts.")
qdisc = group(about="Add, change and show cocoa on a device.")
app.add_typer(qdisc, name="qdisc")
command(app, "load")(bpf.load)
command(app, "unload")(bpf.unload)
command(app, "status")(bpf.status)
command(app, "top")(bpf.top)

#: Options of cocoa are passed through and checked against the registry.
_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}

_Device = Annotated[str, typer.Argument(metavar="DEV", help="The device.")]
_Kind = Annotated[
    str, typer.Argument(metavar="cocoa|cocoa_bpf", help="The queue discipline: the module, or the BPF program.")
]
_Parent = Annotated[str, option(DEVICE, "--parent", metavar="CLASS", help="A class such as 1:1, or root.")]
_Handle = Annotated[
    str, option(DEVICE, "--handle", metavar="HANDLE", help="A handle such as 10:; default: the kernel chooses.")
]
_Replace = Annotated[bool, option(DEVICE, "--replace", help="Replace the existing queue discipline.")]
_Archive = Annotated[
    str | None,
    option(KERNEL, "--archive", metavar="URL", help="Debian's archive or a mirror of it; default: what apt is set to."),
]
_Json = Annotated[bool, option(OUTPUT, "--json", help="Print only JSON, in base units: ns, bit/s, bytes.")]


@command(app, "build")
def build(
    kernel: Annotated[
        str | None,
        typer.Argument(
            metavar="NUMBER",
            help="6.1, 6.12, 7.2 or another that apt has; default: the one built before, else 6.1.",
            autocompletion=complete.kernels,
        ),
    ] = None,
    source: Annotated[
        str | None,
        option(KERNEL, "--source", metavar="DIR|PACKAGE", help="A kernel tree, or a package such as linux-source-6.1."),
    ] = None,
    suite: Annotated[
        str | None,
        option(
            KERNEL,
            "--suite",
            metavar="NAME",
            help="The suite of Debian to fetch the source from, such as trixie-backports; default: this machine's.",
        ),
    ] = None,
    archive: _Archive = None,
    tick: Annotated[
        str,
        option(KERNEL, "--tick", metavar="TIME", help="The kernel's clock tick, like [tcp] tick: 10 ms, 4 ms or 1 ms."),
    ] = "4 ms",
    jobs: Annotated[
        int | None,
        option(RUNNING, "--jobs", metavar="N", min=1, help="Number of parallel compilers; default: one per core."),
    ] = None,
) -> None:
    """Build the parts of the ground uml: a kernel, our modules, a traffic program.

    The first build of a kernel takes a few minutes and is kept in ~/.cache/knee (or $XDG_CACHE_HOME/knee), beside those
    of other kernels; a second call returns at once. Runs use the one built last unless they name another:
    knee run FILE --ground uml --kernel 7.2. The source is Debian's package linux-source-NUMBER, which apt downloads
    without root and without installing it.
    """
    from knee.grounds.uml.refuse import TICKS
    from knee.kernel.build import build as make
    from knee.kernel.cache import built
    from knee.scenario.units import parse_time

    try:
        hz = TICKS.get(parse_time(tick))
    except Refused as refused:
        raise InputError(f"--tick: {refused}.") from None
    if hz is None:
        raise InputError(f"--tick: {tick} is not supported; expected 10 ms, 4 ms or 1 ms.")
    if kernel is not None and source is not None:
        raise InputError(f"{kernel} and --source {source} name two sources; leave one of them out.")
    if kernel is not None and not re.fullmatch(r"\d+\.\d+", kernel):
        raise InputError(f"{kernel} is not the number of a kernel; expected one such as 7.2. A tree is --source DIR.")
    with Bar("kernel") as bar:
        lab, new = make(kernel or source, hz, jobs, bar, suite=suite, archive=archive)
    done = "built" if new else "already built"
    out().print(
        f"Linux {lab.release} with a tick of {tick}: {done}; knee run FILE --ground uml uses it.", soft_wrap=True
    )
    others = [other.release for other in built() if other.hz == hz and other.number != lab.number]
    if others:
        out().print(f"Also built: Linux {', '.join(others)}; --kernel NUMBER chooses.", soft_wrap=True)


@command(qdisc, "add", context_settings=_OPTIONS)
def add(
    context: typer.Context,
    device: _Device,
    kind: _Kind,
    parent: _Parent = "root",
    handle: _Handle = "",
    replace: _Replace = False,
) -> None:
    """Add cocoa to a device, as the module or as the BPF program that knee linux load cocoa loads.

    Its options are --limit PACKETS and those that knee list queues cocoa shows, for example:
    knee linux qdisc add eth0 cocoa --multiplier 1.25 --max-guard-interval "500 ms"
    """
    _put(context, device, kind, "replace" if replace else "add", parent, handle)


@command(qdisc, "change", context_settings=_OPTIONS)
def change(context: typer.Context, device: _Device, kind: _Kind, parent: _Parent = "root") -> None:
    """Change the given options of a running cocoa; the others stay the same.

    For example: knee linux qdisc change eth0 cocoa --multiplier 0.5
    """
    _put(context, device, kind, "change", parent, "")


@command(qdisc, "show")
def show(
    device: Annotated[str | None, typer.Argument(metavar="[DEV]", help="The device; default: all.")] = None,
    as_json: _Json = False,
) -> None:
    """Show each cocoa with its options, statistics and flows."""
    extras.need("knee linux qdisc", "pyroute2")
    from knee.kernel.options import parameters
    from knee.kernel.qdisc import show as find

    found = find(device)
    if as_json:
        print(json.dumps([vars(each) for each in found], indent=2))
        return
    if not found:
        out().print(f"There is no cocoa on {device or 'any device'} (in this network namespace).")
    for each in found:
        _print(each, parameters())


def _put(context: typer.Context, device: str, kind: str, command: Any, parent: str, handle: str) -> None:
    extras.need("knee linux qdisc", "pyroute2")
    from knee.kernel.options import parameters, parse
    from knee.kernel.qdisc import put

    if kind not in ("cocoa", "cocoa_bpf"):
        raise InputError(
            f"{kind}: knee linux qdisc handles cocoa and cocoa_bpf only; use tc for the kernel's own queue disciplines."
        )
    given = _read(context.args, parameters())
    try:
        put(device, parse(given), kind=kind, command=command, parent=parent, handle=handle)
    except Refused as refused:
        name = f"--{refused.key.replace('_', '-')}" if refused.key else kind
        raise InputError(f"{name}: {refused}.") from None


def _read(arguments: list[str], known: dict[str, Param]) -> dict[str, object]:
    """Parses options: ``--name value``, ``--name=value``, or ``--name`` alone for a switch."""
    given: dict[str, object] = {}
    left = list(arguments)
    while left:
        word, equals, value = left.pop(0).partition("=")
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--"):
            raise InputError(f"{word} is not an option of cocoa; options start with --, such as --multiplier 1.25.")
        param = known.get(name)
        switch = param is not None and param.kind == "bool"
        if not equals and switch and (not left or left[0].startswith("--")):
            given[name] = True
            continue
        if not equals and not left:
            raise InputError(f"{word} has no value; write {word} VALUE.")
        given[name] = _value(value if equals else left.pop(0), param)
    return given


def _value(text: str, param: Param | None) -> object:
    """The value as a scenario file would have it: without quotes where the parameter's kind has none."""
    kind = "" if param is None else param.kind
    if kind == "bool" and text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if kind == "count" else float(text) if kind == "ratio" else text
    except ValueError:
        return text


#: Labels of the statistics, by field.
_STATISTICS = {
    "flow_drops": "dropped: flow's buffer full",
    "trim_drops": "dropped: buffer reduced",
    "limit_drops": "dropped: limit",
    "allocation_errors": "dropped: no memory",
    "enlargements": "enlargements",
    "reductions": "reductions",
    "guard_intervals": "guard intervals",
    "intervals": "intervals between losses",
    "flows": "flows",
    "inactive_flows": "flows without packets",
    "throttled_flows": "flows held back",
    "gc_flows": "flows forgotten",
    "buffer_min": "least buffer, packets",
    "buffer_mean": "mean buffer, packets",
    "buffer_max": "greatest buffer, packets",
    "learned_buffer": "learned buffer, packets",
    "ce_marks": "marked",
    "throttled": "times held back",
}


def _print(shown: Any, known: dict[str, Param]) -> None:
    where, console = shown.where, out()
    console.print(f"{shown.kind} {where['handle']} on {where['device']}, parent {where['parent']}", style="bold")
    settings = (f"{name} {known[name].text(value)}" for name, value in shown.settings.items())
    console.print("  " + ", ".join(settings))
    counters = shown.counters
    console.print(
        f"  sent {number(counters['packets'])} packets, {number(counters['bytes'])} bytes; "
        f"dropped {number(counters['dropped'])}; holds {number(counters['backlog_packets'])} packets"
    )
    rows = table(None, ["statistic", "value"])
    for name, title in _STATISTICS.items():
        rows.add_row(title, number(shown.xstats[name]))
    rows.add_row("last longest interval, ms", number(shown.xstats["longest_interval"] / 1e3))
    rows.add_row("last guard interval, ms", number(shown.xstats["guard_interval"] / 1e3))
    console.print(rows)
    if shown.flows:
        flows = table(None, ["flow", "buffer", "queued", "longest interval ms", "guard left ms", "idle ms"])
        for flow in shown.flows:
            times = (flow["longest_interval"], flow["guard_left"], flow["idle"])
            flows.add_row(
                flow["flow"], number(flow["buffer"]), number(flow["packets"]), *(number(t / 1e3) for t in times)
            )
        console.print(flows)
