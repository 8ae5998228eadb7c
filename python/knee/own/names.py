"""Names of classes in scenarios, which have the class with them."""

from __future__ import annotations

import difflib
import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

from knee.errors import Refused
from knee.own.controls import HOOKS, CongestionControl, Declared, KernelSource, Policy
from knee.own.queues import HOOKS as QUEUE_HOOKS
from knee.own.queues import Queue
from knee.system import content, syntax

if TYPE_CHECKING:
    from knee.own.files import File

#: Prefix of the names that scenarios and results use for classes.
OWN = "python:"

#: A class that a scenario can name.
Own = type[CongestionControl] | type[Queue]


@dataclass(frozen=True)
class Kind:
    """The role of a class in a scenario.

    Attributes:
        what: what it is called.
        base: its base class.
        params: the attribute that declares its parameters.
        hooks: the methods that the engine calls.
        attributes: names of further attributes, which parameters cannot have.
    """

    what: str
    base: Own
    params: str
    hooks: tuple[str, ...]
    attributes: tuple[str, ...]

    @property
    def taken(self) -> tuple[str, ...]:
        """Names that parameters cannot have: they are attributes of the class."""
        return self.params, *self.attributes, *self.hooks


CONTROL = Kind("congestion control", CongestionControl, "cc_params", HOOKS, ("pacing", "full_control", "random"))
QUEUE = Kind("queue", Queue, "queue_params", QUEUE_HOOKS, ("packets",))


def kind_of(own: Own) -> Kind:
    """The role of a class in a scenario."""
    return QUEUE if issubclass(own, Queue) else CONTROL


def params_of(own: Own) -> dict[str, Any]:
    """The parameters that a class declares."""
    declared: dict[str, Any] = getattr(own, kind_of(own).params)
    return declared


class Named(str):
    """The name of a class in a scenario, with the class itself, by which alone it is equal to another such name.

    Attributes:
        of: the class.
        file: the Python file that it is of, where the scenario names that.
    """

    __slots__ = ("file", "of")
    of: Own
    file: File | None

    def __new__(cls, name: str, of: Own, file: File | None = None) -> Named:
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
        if issubclass(self.of, KernelSource | Policy):
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
        if issubclass(self.of, Policy):
            return {self.of.path.name: self.of.text}
        return {} if self.file is None else {self.file.path.name: self.file.source, **self.file.helpers}


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
    if issubclass(name.of, KernelSource | Policy):
        yield name.of.path, name.of.text
    elif name.file is not None:
        yield name.file.path, name.file.source


def check(value: type, kind: Kind = CONTROL) -> None:
    """Refuses a class that the engine cannot use for what a scenario names it."""
    if not issubclass(value, kind.base):
        raise Refused(
            f"the class {value.__name__} is not a {kind.what}", f"expected a subclass of knee.{kind.base.__name__}"
        )
    for hook in kind.hooks:
        method = getattr(value, hook)
        if inspect.iscoroutinefunction(method) or inspect.isgeneratorfunction(method):
            how = "async" if inspect.iscoroutinefunction(method) else "a generator"
            raise Refused(
                f"the method {hook} of the class {value.__name__} is {how}, so calling it does nothing",
                "expected a method that is run when it is called, without async and yield",
            )

    if (slip := _misspelt(value, kind)) is not None:
        found = f"the class {value.__name__} has {slip[0]}, which nothing calls or reads"
        raise Refused(found, f"did you mean {slip[1]}? Otherwise expected another name")
    declared = params_of(value)
    if not isinstance(declared, dict):
        found = f"{kind.params} of the class {value.__name__} is no dict"
        raise Refused(found, 'expected names with parameters, such as {"gain": knee.Param(0.5, 0, 1)}')
    for name, param in declared.items():
        if not isinstance(param, Declared):
            found = f"the parameter {name!r} of the class {value.__name__} is {shown_type(param)}"
            raise Refused(found, "expected a declaration such as knee.Param(0.5, 0, 1)")
        if not isinstance(name, str) or not name.isidentifier() or name in kind.taken or name.startswith("_"):
            found = f"the class {value.__name__} has a parameter called {name!r}"
            raise Refused(found, f"expected a name of Python other than {', '.join(kind.taken)}")


#: Names alike in letters to this part are taken for slips of each other.
_ALIKE = 0.8


def _misspelt(value: type, kind: Kind) -> tuple[str, str] | None:
    """A name of a class that is nearly one of the engine's, and that one; None where there is none.

    A class may have other methods and attributes. One is a slip if the class lacks what it resembles and does not use
    the name itself.
    """
    own = {name: item for base in value.__mro__ if base not in kind.base.__mro__ for name, item in vars(base).items()}
    codes = [code for item in own.values() if (code := _code(item)) is not None]
    used = {name for code in codes for name in content.names(code)}
    declared = params_of(value)
    for name, item in own.items():
        callable_ = _code(item) is not None
        known = [each for each in (kind.hooks if callable_ else (kind.params, *kind.attributes)) if each not in own]
        if name in kind.taken or name.startswith("_") or name in used or name in declared:
            continue
        letters = {each.replace("_", ""): each for each in known}
        close = difflib.get_close_matches(name.replace("_", "").lower(), letters, n=1, cutoff=_ALIKE)
        if close:
            return name, letters[close[0]]
    return None


def _code(item: object) -> CodeType | None:
    """The code of a method of any kind."""
    of = getattr(item, "__func__", getattr(item, "fget", item))
    return getattr(of, "__code__", None)


def shown_type(value: object) -> str:
    """A value by its type, for an error message."""
    return f"a value of type {type(value).__name__}"


def kernel_source(name: object) -> type[KernelSource] | None:
    """The source of a kernel module that a scenario names; None for any other congestion control."""
    return name.of if isinstance(name, Named) and issubclass(name.of, KernelSource) else None


def policy_of(name: object) -> type[Policy] | None:
    """The policy that a scenario names; None for any other congestion control."""
    return name.of if isinstance(name, Named) and issubclass(name.of, Policy) else None


def kernel_name(cc: str) -> str:
    """What a kernel calls a congestion control that a scenario names."""
    source = kernel_source(cc)
    # The names of BPF objects have no hyphen.
    return cc.replace("-", "_") if source is None else source.registers


class _Absent(CongestionControl, Queue):
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
    if issubclass(own, Policy):
        return {"name": name, "source_sha256": name.content, "files": files}
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
