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

A scenario holds the class itself (:class:`Named`): names are for people, and two classes may have the same one.

Each flow gets its own instance. Methods change ``control`` in place: ``cwnd`` and ``ssthresh`` in packets, and
``pacing_rate`` in bit/s of payload (None for the sender's own rate, 1.2 times ``cwnd / srtt``). The sender does loss
recovery: it reduces the window to ``ssthresh`` in proportion to what is delivered.

What a class prints goes to standard error. A method that raises or exits fails the run, and the error names the class.
So does one that has not returned within 10 s, and so do windows that together ask for more packets in flight than four
times what the links and buffers hold and 131,072 more.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import linecache
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any, ClassVar

from knee._core import Ack, Control
from knee.errors import Refused, RunError, in_a_line
from knee.system import content, sudo, syntax, trust

#: How long a method may take, s. It takes microseconds, or seconds where it loads a model first; what is not back then
#: never comes back. Looks are counted, 20 in a second, so that the limit is longer on a machine that is busy or sleeps.
LIMIT_S = 10.0
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
    """Base class of congestion controls written in Python. Without overrides it is Reno (RFC 5681).

    Each flow has its own instance. Methods change ``control`` in place and return nothing: ``cwnd`` and ``ssthresh`` in
    packets, ``pacing_rate`` in bit/s of payload. Times are in seconds of simulated time. The sender does loss recovery:
    it reduces the window to ``ssthresh`` in proportion to what is delivered (RFC 6937). A method that raises fails the
    run with a :class:`knee.RunError` that names the flow.

    Attributes:
        cc_params: the parameters, by name (:class:`knee.Param`), which methods read as attributes.
        pacing: whether the sender paces its packets, at ``pacing_rate`` or else at 1.2 times ``cwnd / srtt``.
        full_control: whether ``on_ack`` is called on every ACK and sets the window also during recovery, as BBR does.
    """

    cc_params: ClassVar[dict[str, Any]] = {}

    pacing: ClassVar[bool] = False
    full_control: ClassVar[bool] = False

    def on_measure(self, ack: Ack, control: Control) -> None:
        """Takes what an ACK measures. Called on every ACK, before loss detection and ``on_ack``.

        Args:
            ack: the ACK; ``ack.rtt`` is None where it gave no sample.
            control: as before the ACK; the window is better set in ``on_ack``.
        """

    def on_ack(self, ack: Ack, control: Control) -> None:
        """Grows the window on an ACK of new data outside of recovery; with ``full_control`` on every ACK.

        Args:
            ack: the ACK.
            control: what it sets: ``cwnd`` of 1 packet or more, whose fraction is kept, and ``pacing_rate``.
        """
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
            control: ``cwnd`` is the window before the reduction; ``ssthresh`` is to be 1 packet or more.
        """
        control.ssthresh = max(control.cwnd / 2, 2.0)

    def on_state(self, event: str, now: float, control: Control) -> None:
        """Takes note of a change of the sender's state.

        Args:
            event: "start" of the connection; "open", "disorder", "cwr", "recovery" or "loss", the state that loss
                recovery enters; "timeout"; "reduced", the end of a reduction; "restart" after idle time.
            now: current time, s.
            control: as it is after the change.
        """

    def on_undo(self, prior_cwnd: int, control: Control) -> None:
        """Sets the window after a reduction that proved wrong (RFC 4015); by default to at least the former one.

        Args:
            prior_cwnd: the window before the reduction, packets.
            control: ``cwnd`` is the reduced window.
        """
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


class Named(str):
    """The name of a class in a scenario, with the class itself, by which alone it is equal to another such name.

    Attributes:
        of: the class.
        file: the Python file that it is of, where the scenario names that.
    """

    __slots__ = ("file", "of")
    of: type[CongestionControl]
    file: _File | None

    def __new__(cls, name: str, of: type[CongestionControl], file: _File | None = None) -> Named:
        """The name of a class."""
        made = super().__new__(cls, name)
        made.of, made.file = of, file
        return made

    def __eq__(self, other: object) -> bool:
        """Whether the text is the same, and the class, where the other one has one."""
        same = str.__eq__(self, other) if isinstance(other, str) else False
        return same and (not isinstance(other, Named) or self.of is other.of)

    def __ne__(self, other: object) -> bool:
        """The opposite."""
        return not self == other

    __hash__ = str.__hash__

    def __deepcopy__(self, memo: object) -> Named:
        """Itself: scenarios are copied, classes are not."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """By the class, which another process has too; the file stays here."""
        return Named, (str(self), self.of)

    @property
    def content(self) -> str:
        """The digest of what the class does, with all that it uses (:mod:`knee.system.content`)."""
        if issubclass(self.of, KernelSource):
            return hashlib.sha256(self.of.text.encode()).hexdigest()
        if self.file is None:
            return content.digest(self.of)
        # Taken once, since a run may change what the file's classes use.
        if self not in self.file.contents:
            self.file.contents[self] = content.digest(self.of)
        return self.file.contents[self]

    @property
    def sources(self) -> dict[str, str]:
        """The files that have it, by their names beside a scenario; none for a class that no scenario file can name."""
        if issubclass(self.of, KernelSource):
            return {str(self): self.of.text}
        return {} if self.file is None else {self.file.path.name: self.file.source, **self.file.helpers}


_naming: ContextVar[Mapping[str, Named]] = ContextVar("naming")


@contextmanager
def naming(names: Iterable[Named]) -> Iterator[None]:
    """Which classes names stand for within the block, as in plain data that was text for a while."""
    token = _naming.set({str(name): name for name in names})
    try:
        yield
    finally:
        _naming.reset(token)


def name_of(value: object) -> object:
    """The name of a class in scenarios, which has the class with it; any other value is returned unchanged."""
    if isinstance(value, Named):
        return value
    if isinstance(value, str) and (known := _naming.get({}).get(value)) is not None:
        return known
    if isinstance(value, str) and (named := IN_FILE.fullmatch(value)) is not None:
        return _from_file(named["file"], named["name"])
    if isinstance(value, str) and IN_SOURCE.fullmatch(value) is not None:
        return _from_source(value)
    if isinstance(value, str) and _BUILT.fullmatch(value) is not None:
        raise _built(Path(value))
    if isinstance(value, str) and value.startswith(OWN):
        return _only(value)
    if not isinstance(value, type):
        return value
    _check(value)
    _used.add(value)
    return Named(OWN + value.__qualname__, value)


#: The classes of this process that scenarios were given, which a finding's file names.
_used: weakref.WeakSet[type[CongestionControl]] = weakref.WeakSet()


def _only(name: str) -> str:
    """The class of a name, where this process has used one of that name; the name itself where it has used none."""
    found = [each for each in list(_used) if OWN + each.__qualname__ == name]
    if len(found) > 1:
        raise Refused(
            f"{len(found)} classes are called {name.removeprefix(OWN)}", "in Python, give the class itself as cc"
        )
    return Named(name, found[0]) if found else name


def named_in(data: Any) -> dict[Named, None]:
    """The classes anywhere in plain data, in order."""
    if isinstance(data, Named):
        return {data: None}
    inner = data.values() if isinstance(data, Mapping) else data if isinstance(data, list | tuple) else ()
    return {name: None for value in inner for name in named_in(value)}


def replaced(data: Any, by: Callable[[Named], str]) -> Any:
    """Plain data with something else in place of each name of a class."""
    if isinstance(data, Named):
        return by(data)
    if isinstance(data, Mapping):
        return {key: replaced(value, by) for key, value in data.items()}
    return [replaced(value, by) for value in data] if isinstance(data, list | tuple) else data


def told_apart(names: Iterable[Named]) -> dict[Named, Named]:
    """Another name for each class that has the name of one before it: ``python:Mine (2)``.

    Raises:
        Refused: two files of one name have them, which cannot be kept side by side.
    """
    files: dict[str, tuple[Path, str]] = {}
    taken: set[str] = set()
    other: dict[Named, Named] = {}
    for name in dict.fromkeys(names):
        for path, source in _file_of(name):
            there, same = files.setdefault(path.name, (path, source))
            if there != path:
                raise Refused(f"two files are called {path.name}: {there} and {path}", "expected different names")
            if same != source:
                raise Refused(f"{path} was changed between two uses of it", "expected one state of it")
        text, number = str(name), 1
        while text in taken:
            number += 1
            text = f"{name} ({number})"
        taken.add(text)
        if text != name:
            other[name] = Named(text, name.of, name.file)
    return other


def _file_of(name: Named) -> Iterator[tuple[Path, str]]:
    """The file of a class that a scenario file can name, and what it says."""
    if issubclass(name.of, KernelSource):
        yield name.of.path, name.of.text
    elif name.file is not None:
        yield name.file.path, name.file.source


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
    """A Python file that was run.

    Attributes:
        path: where it is.
        source: what it said.
        module: what it made.
        helpers: what the modules of its folder said that it imports, by their paths from there.
        imported: the names of these modules.
        contents: the digests of its classes that are known.
    """

    path: Path
    source: str
    module: ModuleType
    helpers: dict[str, str] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)

    def is_current(self, source: str) -> bool:
        """Whether all still says what it said."""
        return self.source == source and all(
            _text(self.path.parent / name) == text for name, text in self.helpers.items()
        )


#: The files of classes, by their places; one thread at a time runs them.
_files: dict[Path, _File] = {}
_running = threading.RLock()
_allowed: ContextVar[bool] = ContextVar("allowed", default=False)


@contextmanager
def code_allowed(allowed: bool) -> Iterator[None]:
    """Whether Python files that scenarios name may be run within the block; they may if a block around it says so."""
    token = _allowed.set(allowed or _allowed.get())
    try:
        yield
    finally:
        _allowed.reset(token)


def _from_file(file: str, name: str) -> Named:
    """The name in scenarios of a class of a file, which is run unless it was."""
    if not _allowed.get():
        raise Refused(
            f'it would run the Python file "{file}" on this machine, and files run only where that is allowed',
            "expected --allow-code, or allow_code=True in Python, once you have read it",
        )
    with _running:
        known = _run(Path(file))
    found = getattr(known.module, name, None)
    if not isinstance(found, type):
        there = [each for each, of in vars(known.module).items() if _is_own(of)]
        raise Refused(f'"{file}" has no class {name}', f"there are: {', '.join(there) or 'none'}")
    _check(found)
    return Named(f"{known.path.name}:{name}", found, known)


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


def kernel_source(name: object) -> type[KernelSource] | None:
    """The source of a kernel module that a scenario names; None for any other congestion control."""
    return name.of if isinstance(name, Named) and issubclass(name.of, KernelSource) else None


def kernel_name(cc: str) -> str:
    """What a kernel calls a congestion control that a scenario names."""
    source = kernel_source(cc)
    return cc if source is None else source.registers


#: The C files that were read, by their places.
_sources: dict[Path, type[KernelSource]] = {}


def _from_source(file: str) -> Named:
    """The name in scenarios of a C file, which is read; it is built and loaded where it runs."""
    path = Path(file)
    if not _allowed.get():
        raise Refused(
            f'it would build the kernel module "{file}" and load it in a guest, and files run only where that is '
            "allowed",
            "expected --allow-code, or allow_code=True in Python, once you have read it",
        )
    where, text = path.resolve(), _read(path, "a C file")
    known = _sources.get(where)
    if known is not None and known.text == text:
        return Named(path.name, known)
    if re.fullmatch(r"[A-Za-z_][\w-]*\.c", path.name) is None:
        raise Refused(f'"{path.name}" is no name of a module', 'expected letters, digits, "_" and "-": tcp_mine.c')
    names = [found["name"] for ops in _OPS.finditer(text) for found in _OPS_NAME.finditer(ops["inside"])]
    if len(names) != 1:
        found = f"it registers {', '.join(names)}" if names else "it registers no congestion control"
        accepted = 'expected one struct tcp_congestion_ops with a .name = "..." of up to 15 characters'
        raise Refused(f'"{file}": {found}', accepted)
    keys: dict[str, Any] = {"path": where, "file": path.name, "text": text, "module": path.stem, "registers": names[0]}
    keys["__doc__"] = f"The congestion control {names[0]} of a kernel module."
    _sources[where] = type(path.stem, (KernelSource,), keys)
    return Named(path.name, _sources[where])


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


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def _run(path: Path) -> _File:
    """The file at a path, run; not again while it is what it was, and so are the modules beside it."""
    where = path.resolve()
    known, source = _files.get(where), _read(path, "a Python file")
    if known is not None and known.is_current(source):
        return known
    linecache.checkcache()
    _forget_helpers(where.parent)
    title = f"knee_code_{path.stem}"
    if any(other.module.__name__ == title for place, other in _files.items() if place != where):
        title += f"_{len(_files)}"
    spec = importlib.util.spec_from_file_location(title, where)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # inspect, which reads the source of classes, finds their module here.
    sys.modules[title] = module
    try:
        code = compile(source, str(where), "exec")
        with contained():
            exec(code, vars(module))
    except (Exception, SystemExit, GeneratorExit) as error:
        del sys.modules[title]
        raise Refused(f'"{path}" fails as it is run ({in_a_line(error)})', "expected a Python file that runs") from None
    _files[where] = _File(where, source, module)
    for file, name in content.modules(code, "", where.parent).items():
        if (text := _text(where.parent / file)) is not None:
            _files[where].helpers[file] = text
            _files[where].imported[file] = name
    return _files[where]


def _forget_helpers(folder: Path) -> None:
    """Makes Python import anew what changed of the modules beside files of classes, or lies beside another file."""
    for known in _files.values():
        beside = known.path.parent
        for file, name in known.imported.items():
            if beside != folder or _text(beside / file) != known.helpers[file]:
                there = getattr(sys.modules.get(name), "__file__", None)
                if there is not None and Path(there).resolve() == beside / file:
                    del sys.modules[name]


class _Absent(CongestionControl):
    """Stands where a result names a class that this process does not have; it cannot run."""


def absent(names: Iterable[str]) -> list[Named]:
    """What stands for classes that are not here, so that the scenario of a result can be read (:func:`naming`)."""
    return [Named(name, _Absent) for name in names]


def sources(names: Iterable[Named]) -> dict[str, str]:
    """The files of some classes that a result can keep: not those of one name that say two things."""
    each = [item for name in names for item in name.sources.items()]
    return {file: text for file, text in each if all(text == other for name, other in each if name == file)}


def is_absent(name: str) -> bool:
    """Whether a name is of a class that is not here."""
    return isinstance(name, Named) and name.of is _Absent


def described(name: Named) -> dict[str, Any]:
    """A class or kernel module as manifests describe it: where it is from, and digests.

    ``source_sha256`` is that of its source alone, None where that cannot be read; ``sha256`` that of all that it uses;
    ``files`` those of the files that it comes from.
    """
    own, files = name.of, {file: hashlib.sha256(text.encode()).hexdigest() for file, text in name.sources.items()}
    if issubclass(own, KernelSource):
        digest = name.content
        return {"name": name, "module": own.module, "registers": own.registers, "source_sha256": digest, "files": files}
    try:
        source, where = syntax.source(own), inspect.getsourcefile(own)
    except (OSError, TypeError):
        source, where = None, None
    digests = {
        "source_sha256": None if source is None else hashlib.sha256(source.encode()).hexdigest(),
        "sha256": name.content,
        "files": files,
    }
    return {"name": name, "module": own.__module__, "class": own.__qualname__, "file": where} | digests
