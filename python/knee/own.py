"""Congestion controls written in Python.

Subclass :class:`CongestionControl` and use the class as ``cc`` of a flow, in a scenario given as a dict::

    class Gentle(knee.CongestionControl):
        def on_ack(self, ack, control):
            if control.in_slow_start:
                control.cwnd += ack.delivered
            else:
                control.cwnd += ack.delivered / control.cwnd

        def on_loss(self, signal, now, control):
            control.ssthresh = max(control.cwnd * 0.8, 2)

    knee.run({
        "duration": "20 s",
        "link": {"rate": "20 Mbit/s", "limit": "100 packets"},
        "flows": [{"cc": Gentle, "rtt": "20 ms"}, {"cc": "cubic", "rtt": "20 ms"}],
    })

A scenario file names a class of a Python file: ``cc = "mine.py:Gentle"``. The file is run only where
:func:`code_allowed` says so. ``cc = "tcp_mine.c"`` names the C source of a kernel module (:class:`KernelSource`).

A class may declare parameters (:mod:`knee.scenario.declared`), which flows set in ``cc_params``.

Each flow gets its own instance. Methods change ``control`` in place: ``cwnd`` and ``ssthresh`` in packets, and
``pacing_rate`` in bit/s of payload (None for the sender's own rate, 1.2 times ``cwnd / srtt``). The sender does loss
recovery: it reduces the window to ``ssthresh`` in proportion to what is delivered.

What a class prints goes to standard error. A method that raises or exits fails the run, and the error names the class.
So do windows that together ask for more packets in flight than four times what the links and buffers hold and 131,072
more.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, ClassVar

from knee._core import Ack, Control
from knee.errors import Refused, RunError, in_a_line
from knee.system import sudo, syntax, trust

#: Prefix of the names that scenarios and results use for classes.
OWN = "python:"
#: A class of a Python file, as scenarios name it.
IN_FILE = re.compile(r"(?P<file>[^\n]*\.py):(?P<name>[A-Za-z_]\w*)")
#: The C source of a kernel module that is a congestion control, as scenarios name it.
IN_SOURCE = re.compile(r"(?P<file>[^\n]*\.c)")
#: What else may hold one, which no scenario takes: a built module, a BPF object.
_BUILT = re.compile(r"[^\n]*\.k?o")
#: What a module registers: the initializer of a ``struct tcp_congestion_ops``, and the name in it.
_OPS = re.compile(r"struct\s+tcp_congestion_ops\s+\w+[^=;{}]*=\s*\{(?P<inside>.*?)\n\s*\};", re.DOTALL)
_OPS_NAME = re.compile(r'\.name\s*=\s*"(?P<name>[^"\\\s]{1,15})"')
#: Largest such file, bytes.
_MOST_SOURCE = 1 << 20


class Declared:
    """What a class declares as a parameter: :class:`knee.Param`."""


class CongestionControl:
    """Base class of congestion controls written in Python. Without overrides it is Reno (RFC 5681)."""

    #: The parameters, by name (:class:`knee.Param`), which methods read as attributes.
    cc_params: ClassVar[dict[str, Any]] = {}

    #: Whether the sender paces its packets.
    pacing: ClassVar[bool] = False
    #: Whether ``on_ack`` is called on every ACK and sets the window also during recovery, as BBR does.
    full_control: ClassVar[bool] = False

    def on_measure(self, ack: Ack, control: Control) -> None:
        """Called on every ACK, before loss detection."""

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grows the window on an ACK of new data outside of recovery."""
        if not ack.cwnd_limited:
            return
        if control.in_slow_start:
            control.cwnd = min(control.cwnd + ack.delivered, control.ssthresh)
        else:
            control.cwnd += ack.delivered / control.cwnd

    def on_loss(self, signal: str, now: float, control: Control) -> None:
        """Sets ``control.ssthresh`` after a congestion signal, at most one per round trip.

        Args:
            signal: "loss", "ecn" or "timeout".
            now: current time, s.
            control: ``cwnd`` is the window before the reduction.
        """
        control.ssthresh = max(control.cwnd / 2, 2.0)

    def on_state(self, event: str, now: float, control: Control) -> None:
        """Called on "start", "open", "disorder", "cwr", "recovery", "loss", "timeout", "reduced" and "restart"."""

    def on_undo(self, prior_cwnd: int, control: Control) -> None:
        """Sets ``control.cwnd`` after a reduction that proved wrong; by default at least to the previous window."""
        control.cwnd = max(control.cwnd, prior_cwnd)


#: The methods that the engine calls.
_HOOKS = ("on_measure", "on_ack", "on_loss", "on_state", "on_undo")

#: What parameters cannot be called: they are attributes of the class.
_TAKEN = ("cc_params", "pacing", "full_control", *_HOOKS)

_containing = Lock()
_contained = 0
_uncontained: tuple[Any, Any] = (None, None)


@contextmanager
def contained() -> Iterator[None]:
    """Runs code of classes: what it prints goes to standard error, and ``os._exit`` raises SystemExit.

    Standard output is for results alone. Several threads may be in such a block at once.
    """
    global _contained, _uncontained
    here = os.getpid()

    def leave(status: int) -> Any:
        if os.getpid() == here:
            raise SystemExit(status)
        # A process that the class has forked.
        _uncontained[1](status)

    with _containing:
        if not _contained:
            _uncontained = sys.stdout, os._exit
            sys.stdout, os._exit = sys.stderr, leave
        _contained += 1
    try:
        yield
    finally:
        with _containing:
            _contained -= 1
            if not _contained:
                sys.stdout, os._exit = _uncontained


#: Classes used in scenarios, by their names there.
_classes: dict[str, type[CongestionControl]] = {}


def name_of(value: object) -> object:
    """The name of a class in scenarios, under which it is registered; any other value is returned unchanged."""
    if isinstance(value, str) and (named := IN_FILE.fullmatch(value)) is not None:
        return _from_file(named["file"], named["name"])
    if isinstance(value, str) and IN_SOURCE.fullmatch(value) is not None:
        return _from_source(value)
    if isinstance(value, str) and _BUILT.fullmatch(value) is not None:
        raise _built(Path(value))
    if not isinstance(value, type):
        return value
    _check(value)
    name = OWN + value.__qualname__
    register(name, value)
    return name


def _check(value: type) -> None:
    """Refuses a class that the engine cannot use."""
    if not issubclass(value, CongestionControl):
        raise Refused(
            f"the class {value.__name__} is not a congestion control", "expected a subclass of knee.CongestionControl"
        )
    for hook in _HOOKS:
        method = getattr(value, hook)
        if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
            kind = "async" if inspect.iscoroutinefunction(method) else "a generator"
            raise Refused(
                f"the method {hook} of the class {value.__name__} is {kind}, so calling it does nothing",
                "expected a method that is run when it is called, without async and yield",
            )

    if not isinstance(value.cc_params, dict):
        found = f"cc_params of the class {value.__name__} is no dict"
        raise Refused(found, 'expected names with parameters, such as {"gain": knee.Param(0.5, 0, 1)}')
    for name, param in value.cc_params.items():
        if not isinstance(param, Declared):
            found = f"the parameter {name!r} of the class {value.__name__} is {shown_type(param)}"
            raise Refused(found, "expected a declaration such as knee.Param(0.5, 0, 1)")
        if not isinstance(name, str) or not name.isidentifier() or name in _TAKEN or name.startswith("_"):
            found = f"the class {value.__name__} has a parameter called {name!r}"
            raise Refused(found, f"expected a name of Python other than {', '.join(_TAKEN)}")


def shown_type(value: object) -> str:
    """A value by its type, for an error message."""
    return f"a value of type {type(value).__name__}"


@dataclass(frozen=True)
class _File:
    """A Python file that was run: where it is, and what it said."""

    path: Path
    source: str
    module: ModuleType


#: The files of classes, by the file's name.
_files: dict[str, _File] = {}
_allowed: ContextVar[bool] = ContextVar("allowed", default=False)


@contextmanager
def code_allowed(allowed: bool) -> Iterator[None]:
    """Whether Python files that scenarios name may be run within the block; they may if a block around it says so."""
    token = _allowed.set(allowed or _allowed.get())
    try:
        yield
    finally:
        _allowed.reset(token)


def _from_file(file: str, name: str) -> str:
    """The name in scenarios of a class of a file, which is run unless it was."""
    path = Path(file)
    short = f"{path.name}:{name}"
    if not _allowed.get():
        if file == path.name and short in _classes:
            return short
        raise Refused(
            f'it would run the Python file "{file}" on this machine, and files run only where that is allowed',
            "expected --allow-code, or allow_code=True in Python, once you have read it",
        )
    known = _files.get(path.name)
    if known is None or path.is_file():
        known = _run(path, known)
    found = getattr(known.module, name, None)
    if not isinstance(found, type):
        there = [each for each, of in vars(known.module).items() if _is_own(of)]
        raise Refused(f'"{file}" has no class {name}', f"there are: {', '.join(there) or 'none'}")
    _check(found)
    register(short, found)
    return short


def _is_own(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, CongestionControl) and value is not CongestionControl


class KernelSource(CongestionControl):
    """Stands where a scenario names the C source of a kernel module, which runs in the guest of the ground ``uml``."""

    #: Where the file is, its name, its text, what the module is called, and the congestion control that it registers.
    path: ClassVar[Path]
    file: ClassVar[str]
    text: ClassVar[str]
    module: ClassVar[str]
    registers: ClassVar[str]


def kernel_source(name: str) -> type[KernelSource] | None:
    """The source of a kernel module that a scenario names; None for any other congestion control."""
    found = _classes.get(name)
    return found if isinstance(found, type) and issubclass(found, KernelSource) else None


def kernel_name(cc: str) -> str:
    """What a kernel calls a congestion control that a scenario names."""
    source = kernel_source(cc)
    return cc if source is None else source.registers


def _from_source(file: str) -> str:
    """The name in scenarios of a C file, which is read; it is built and loaded where it runs."""
    path = Path(file)
    if not _allowed.get():
        if file == path.name and kernel_source(file) is not None:
            return file
        raise Refused(
            f'it would build the kernel module "{file}" and load it in a guest, and files run only where that is '
            "allowed",
            "expected --allow-code, or allow_code=True in Python, once you have read it",
        )
    known = kernel_source(path.name)
    if known is not None and file == path.name and not path.is_file():
        return file
    where = path.resolve()
    if known is not None and known.path != where:
        raise Refused(f"two files are called {path.name}: {known.path} and {where}", "expected different names")
    text = _read(path, "a C file")
    if known is not None and known.text == text:
        return path.name
    if re.fullmatch(r"[A-Za-z_][\w-]*\.c", path.name) is None:
        raise Refused(f'"{path.name}" is no name of a module', 'expected letters, digits, "_" and "-": tcp_mine.c')
    names = [found["name"] for ops in _OPS.finditer(text) for found in _OPS_NAME.finditer(ops["inside"])]
    if len(names) != 1:
        found = f"it registers {', '.join(names)}" if names else "it registers no congestion control"
        accepted = 'expected one struct tcp_congestion_ops with a .name = "..." of up to 15 characters'
        raise Refused(f'"{file}": {found}', accepted)
    keys: dict[str, Any] = {"path": where, "file": path.name, "text": text, "module": path.stem, "registers": names[0]}
    keys["__doc__"] = f"The congestion control {names[0]} of a kernel module."
    register(path.name, type(path.stem, (KernelSource,), keys))
    return path.name


def _built(path: Path) -> Refused:
    """Why a built module or BPF object is not taken."""
    if path.suffix == ".o":
        return Refused(
            f'"{path}" is a BPF object, and the kernels of the ground uml have no BPF',
            "expected the C source of a kernel module, such as tcp_mine.c, or a Python class, such as mine.py:Mine",
        )
    try:
        found = re.search(rb"\0vermagic=([^\0]+)\0", path.read_bytes())
    except OSError as error:
        return Refused(f'"{path}" cannot be read ({error.strerror})', "expected the C source of a module: tcp_mine.c")
    made = f"was built for Linux {found[1].decode(errors='replace').strip()}" if found else "says no kernel"
    return Refused(
        f'"{path}" {made}, and a built module runs in that kernel alone',
        f"expected its C source, such as {path.stem}.c, which is built for the kernel that runs it",
    )


def _read(path: Path, what: str) -> str:
    """The text of a file that is going to run."""
    try:
        # Behind sudo, the caller's files are the caller's own code.
        caller = sudo.caller()
        trust.trusted(path, "copy it to a folder of root's", () if caller is None else caller[:1])
    except RunError as error:
        found, _, mend = str(error).rstrip(".").partition("; ")
        raise Refused(f'"{path}"{found.removeprefix(str(path))}', mend) from None
    try:
        if path.stat().st_size > _MOST_SOURCE:
            raise Refused(f'"{path}" has more than {_MOST_SOURCE} bytes', f"expected {what}")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise Refused(f'"{path}" cannot be read ({reason})', f"expected {what}") from None


def _run(path: Path, known: _File | None) -> _File:
    """The file at a path, run; not again while it is what it was."""
    where = path.resolve()
    if known is not None and known.path != where:
        raise Refused(f"two files are called {path.name}: {known.path} and {where}", "expected different names")
    source = _read(path, "a Python file")
    if known is not None and known.source == source:
        return known
    linecache.checkcache(str(where))
    title = f"knee_code_{path.stem}"
    spec = importlib.util.spec_from_file_location(title, where)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # inspect, which reads the source of classes, finds their module here.
    sys.modules[title] = module
    try:
        with contained():
            exec(compile(source, str(where), "exec"), vars(module))
    except (Exception, SystemExit, GeneratorExit) as error:
        del sys.modules[title]
        raise Refused(f'"{path}" fails as it is run ({in_a_line(error)})', "expected a Python file that runs") from None
    _files[path.name] = _File(where, source, module)
    return _files[path.name]


def sources(names: Iterable[str]) -> dict[str, str]:
    """The sources of the files, in Python or C, that have these congestion controls, by the file's name."""
    names = list(names)
    named = (IN_FILE.fullmatch(name) for name in names)
    found = {each["file"]: _files[each["file"]].source for each in named if each and each["file"] in _files}
    return found | {name: of.text for name in names if (of := kernel_source(name)) is not None}


def register(name: str, own: type[CongestionControl]) -> None:
    """Makes a class known by a name, as where a scenario that was made elsewhere uses it."""
    _classes[name] = own


class _Absent(CongestionControl):
    """Stands where a result names a class that this process does not have; it cannot run."""


def name_absent(names: Iterable[str]) -> None:
    """Makes names of classes known that are not here, so that the scenario of a result can be read."""
    for name in names:
        _classes.setdefault(name, _Absent)


def is_absent(name: str) -> bool:
    """Whether a name is of a class that is not here."""
    return _classes.get(name) is _Absent


def described(name: str, own: type[CongestionControl]) -> dict[str, Any]:
    """A class or kernel module as manifests describe it: its file and source digest; None for what cannot be read."""
    if issubclass(own, KernelSource):
        told = hashlib.sha256(own.text.encode()).hexdigest()
        return {"name": name, "module": own.module, "registers": own.registers, "source_sha256": told}
    try:
        source, file = syntax.source(own), inspect.getsourcefile(own)
    except (OSError, TypeError):
        source, file = None, None
    digest = None if source is None else hashlib.sha256(source.encode()).hexdigest()
    return {"name": name, "module": own.__module__, "class": own.__qualname__, "file": file, "source_sha256": digest}


def classes() -> dict[str, type[CongestionControl]]:
    """The classes used in scenarios so far, by name."""
    return dict(_classes)
