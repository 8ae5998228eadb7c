"""From what a scenario says to the class that it names: one of this process, or of a file.

Files are Python files, C sources of kernel modules, and weights of policies.
"""

from __future__ import annotations

import importlib.util
import linecache
import re
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from knee.errors import Refused, RunError, in_a_line
from knee.own.controls import KernelSource, Policy
from knee.own.names import CONTROL, OWN, QUEUE, Kind, Named, Own, check, kind_of
from knee.own.policies import plan
from knee.system import content, rights
from knee.system.contained import contained

#: A class of a Python file, as scenarios name it.
IN_FILE = re.compile(r"(?P<file>[^\n]*\.py):(?P<name>[A-Za-z_]\w*)")
#: The C source of a kernel module that is a congestion control, as scenarios name it.
IN_SOURCE = re.compile(r"(?P<file>[^\n]*\.c)")
#: A file of weights, as scenarios name it.
PREFIX = "policy:"
IN_POLICY = re.compile(PREFIX + r"(?P<file>[^\n]*\.json)")
#: A built module or a BPF object, which no scenario takes.
BUILT = re.compile(r"[^\n]*\.k?o")
#: The initializer of a ``struct tcp_congestion_ops``, and the name in it.
_OPS = re.compile(r"struct\s+tcp_congestion_ops\s+\w+[^=;{}]*=\s*\{(?P<inside>.*?)\n\s*\};", re.DOTALL)
_OPS_NAME = re.compile(r'\.name\s*=\s*"(?P<name>[^"\\\s]{1,15})"')
#: Largest such file, bytes.
_MOST_SOURCE = 1 << 20


_naming: ContextVar[Mapping[str, Named]] = ContextVar("naming")


@contextmanager
def naming(names: Iterable[Named]) -> Iterator[None]:
    """The names of own classes mean these within the block, as in plain data that was text for a while."""
    token = _naming.set({str(name): name for name in names})
    try:
        yield
    finally:
        _naming.reset(token)


def name_of(value: object, kind: Kind | None = None) -> object:
    """The name of a class in scenarios, which has the class with it; any other value is returned unchanged.

    Args:
        value: what a scenario says.
        kind: what the class has to be; by default any kind will do.

    Raises:
        Refused: the class is none of this kind, or its file may not or cannot be run.
    """
    if isinstance(value, Named):
        check(value.of, kind or kind_of(value.of))
        return value
    if isinstance(value, type):
        check(value, kind or kind_of(value))
        _used.add(value)
        return Named(OWN + value.__qualname__, value)
    if not isinstance(value, str):
        return value
    if (known := _naming.get({}).get(value)) is not None:
        return name_of(known, kind)
    if (named := IN_FILE.fullmatch(value)) is not None:
        return from_file(named["file"], named["name"], kind)
    if value.startswith(OWN):
        return name_of(found, kind) if isinstance(found := _only(value), Named) else found
    if kind is QUEUE:
        return value
    if IN_SOURCE.fullmatch(value) is not None:
        return from_source(value)
    if (named := IN_POLICY.fullmatch(value)) is not None:
        return from_weights(named["file"])
    if BUILT.fullmatch(value) is not None:
        raise built(Path(value))
    return value


#: The classes of this process that scenarios were given, which a finding's file names.
_used: weakref.WeakSet[Own] = weakref.WeakSet()


def _only(name: str) -> str:
    """The class of a name, where this process has used one of that name; the name itself where it has used none."""
    found = [each for each in list(_used) if OWN + each.__qualname__ == name]
    if len(found) > 1:
        raise Refused(f"{len(found)} classes are called {name.removeprefix(OWN)}", "in Python, give the class itself")
    return Named(name, found[0]) if found else name


@dataclass(frozen=True)
class File:
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
_files: dict[Path, File] = {}
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


def from_file(file: str, name: str, kind: Kind | None = None) -> Named:
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
        kinds = (CONTROL, QUEUE) if kind is None else (kind,)
        there = [each for each, of in vars(known.module).items() if any(is_own(of, one) for one in kinds)]
        raise Refused(f'"{file}" has no class {name}', f"there are: {', '.join(there) or 'none'}")
    check(found, kind or kind_of(found))
    return Named(f"{known.path.name}:{name}", found, known)


def is_own(value: object, kind: Kind = CONTROL) -> bool:
    """Whether a value is a class of somebody's own, of a congestion control or of another kind."""
    return isinstance(value, type) and issubclass(value, kind.base) and value is not kind.base


#: The C files that were read, by their places.
_sources: dict[Path, type[KernelSource]] = {}


def from_source(file: str) -> Named:
    """The name in scenarios of a C file, which is read; it is built and loaded where it runs."""
    path = Path(file)
    if not _allowed.get():
        raise Refused(
            f'it would build the kernel module "{file}" and load it in a guest, and files run only where that is '
            "allowed",
            "expected --allow-code, or allow_code=True in Python, once you have read it",
        )
    where, text = path.resolve(), read_file(path, "a C file")
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


#: The files of weights that were read, by their places.
_weights: dict[Path, type[Policy]] = {}


def from_weights(file: str) -> Named:
    """The name in scenarios of a file of weights, which is read.

    Raises:
        Refused: it cannot be read, or is no policy; names the key.
    """
    path = Path(file)
    where, text = path.resolve(), read_file(path, "a file of weights in JSON")
    known = _weights.get(where)
    if known is None or known.text != text:
        keys: dict[str, Any] = {"path": where, "text": text, "plan": plan(text, file)}
        keys["__doc__"] = f"The policy of {path.name}."
        known = _weights[where] = type(path.stem, (Policy,), keys)
    return Named(f"{PREFIX}{path.name}", known)


def built(path: Path) -> Refused:
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


def read_file(path: Path, what: str) -> str:
    """The text of a file that is going to run."""
    try:
        # Behind sudo, the caller's files are the caller's own code.
        caller = rights.caller()
        rights.trusted(path, "copy it to a folder of root's", () if caller is None else caller[:1])
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


def _run(path: Path) -> File:
    """The file at a path, run; not again while it is what it was, and so are the modules beside it."""
    where = path.resolve()
    known, source = _files.get(where), read_file(path, "a Python file")
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
    _files[where] = File(where, source, module)
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
