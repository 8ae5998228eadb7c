"""The digest of what a Python class does: its code, and all that its code uses.

:func:`digest` walks the objects themselves, as they are in memory, since those run: methods with their defaults and
captured variables, the globals and modules that they name, base classes, and values down to numbers and text. Modules
of the standard library, of site-packages and of knee count by their names. Comments, the order of definitions and the
folder of a file make no difference.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import importlib
import importlib.machinery
import importlib.util
import sys
import sysconfig
import types
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

#: What classes have that decides on nothing.
_APART = frozenset(
    "__module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __annotate__ __annotate_func__ "
    "__annotations_cache__ __firstlineno__ __static_attributes__ _abc_impl".split()
)
_PRIMITIVE = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))
#: Descriptors of slots and of classes written in C, which have no content beyond their name.
_NAMES = (
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)
_LIBRARIES = tuple(
    {f"{Path(sysconfig.get_path(name)).resolve()}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {f"{Path(__file__).resolve().parents[1]}/"}
)
#: What cannot be read, such as an open file, is the same as itself alone, and in this process.
_HERE = uuid.uuid4().hex
_unreadable: dict[int, Any] = {}


def digest(of: object) -> str:
    """The digest of a class, or of another object, with all that it uses.

    It depends on the release of Python. Modules of the user's own that a method imports only when it is called are
    imported for it.
    """
    walk = _Walk()
    try:
        walk.value(of)
    except RecursionError:
        walk.unreadable(of)
    return walk.hash.hexdigest()


def is_library(module: types.ModuleType | None) -> bool:
    """Whether a module is of the standard library, of site-packages or of knee, and so known by its name."""
    spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
    # Without a file there are those built into Python, namespace packages, and what a user types.
    return is_library_file(file) if file is not None else getattr(spec, "origin", None) in ("built-in", "frozen")


def is_library_file(file: str) -> bool:
    """Whether a file is of the standard library, of site-packages or of knee."""
    where = str(Path(file).resolve())
    return where.startswith(_LIBRARIES) or "/site-packages/" in where or "/dist-packages/" in where


def _is_library_name(name: Any) -> bool:
    return isinstance(name, str) and (module := sys.modules.get(name)) is not None and is_library(module)


class _Walk:
    """Feeds objects to a hash, each with its kind, and an object that was there before by its number."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        #: The objects, which stay alive so that no other one gets their address.
        self._seen: dict[int, tuple[int, Any]] = {}

    def put(self, *words: object) -> None:
        for word in words:
            text = word if isinstance(word, bytes) else str(word).encode(errors="surrogatepass")
            self.hash.update(f"{len(text)}:".encode() + text)

    def unreadable(self, value: object) -> None:
        _unreadable[id(value)] = value
        self.put("unreadable", _HERE, id(value))

    def value(self, value: Any) -> None:
        if isinstance(value, _PRIMITIVE) and type(value) in _PRIMITIVE:
            self.put(type(value).__name__, value if isinstance(value, bytes) else repr(value))
            return
        if (there := self._seen.get(id(value))) is not None:
            self.put("again", there[0])
            return
        self._seen[id(value)] = len(self._seen), value
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.CodeType):
            self._code(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif isinstance(value, _NAMES):
            self._name(value)
        elif (parts := _parts(value)) is not None:
            self.put(type(value).__name__, len(parts))
            for part in parts:
                self.value(part)
        else:
            self._instance(value)

    def _each(self, values: Iterable[Any]) -> None:
        for value in values:
            self.value(value)

    def _function(self, value: types.FunctionType) -> None:
        if _is_library_name(value.__module__):
            self.put("function", value.__module__, value.__qualname__)
            self._captured(value)
            return
        self.put("function")
        self._code(value.__code__)
        self._each([value.__defaults__, value.__kwdefaults__, vars(value)])
        self._captured(value)
        inside = value.__globals__
        for name in sorted({name for code in _codes(value.__code__) for name in code.co_names}):
            if name in inside:
                self.put("global", name)
                self.value(inside[name])
        for module in _imported(value.__code__, inside.get("__package__") or ""):
            self.value(module)

    def _captured(self, value: types.FunctionType) -> None:
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            self.put("captured", name)
            try:
                self.value(cell.cell_contents)
            except ValueError:
                self.put("empty")

    def _code(self, code: types.CodeType) -> None:
        self.put("code", code.co_code, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        self.put(code.co_flags, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.put(getattr(code, "co_exceptiontable", b""))
        self._each(code.co_consts)

    def _class(self, value: type) -> None:
        if _is_library_name(value.__module__):
            self.put("class", value.__module__, value.__qualname__)
            return
        self.put("class", value.__name__)
        self._each([type(value), value.__bases__])
        for name, inner in sorted(vars(value).items()):
            if name not in _APART:
                self.put(name)
                self.value(inner)

    def _module(self, value: types.ModuleType) -> None:
        if is_library(value):
            self.put("module", value.__name__, getattr(value, "__version__", ""))
            return
        self.put("module")
        for name, inner in sorted(vars(value).copy().items()):
            if not (name.startswith("__") and name.endswith("__")):
                self.put(name)
                self.value(inner)

    def _name(self, value: Any) -> None:
        self.put(type(value).__name__, getattr(value, "__qualname__", ""))
        owner = getattr(value, "__self__", None) or getattr(value, "__objclass__", None)
        self.value(owner)

    def _instance(self, value: Any) -> None:
        """An object by what pickling it would keep."""
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            made = value.__reduce_ex__(4) if reduce is None else reduce(value)
            if isinstance(made, str):
                self.put("global", getattr(value, "__module__", ""), made)
                return
            parts = [list(part) if isinstance(part, Iterator) else part for part in made]
        except Exception:
            # An object may raise anything here, and what is not read cannot be compared.
            self.unreadable(value)
            return
        self.put("instance", len(parts))
        self._each(parts)


def _parts(value: Any) -> list[Any] | None:
    """The parts of a container, or of an object that is made of others and cannot be pickled."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return list(value)
    if type(value) in (dict, types.MappingProxyType):
        return [part for pair in list(value.items()) for part in pair]
    if type(value) in (set, frozenset):
        # Their order differs from process to process.
        return sorted(digest(part) for part in list(value))
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, staticmethod | classmethod):
        return [value.__func__]
    if isinstance(value, property):
        return [value.fget, value.fset, value.fdel]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if isinstance(value, types.CellType):
        return [value.cell_contents]
    if callable(value) and hasattr(value, "__wrapped__"):
        # Such as what functools.cache gives, which is pickled by its name.
        return [value.__wrapped__]
    return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of the functions in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


def names(code: types.CodeType) -> set[str]:
    """The names of globals and attributes in a function, and in those inside it."""
    return {name for each in _codes(code) for name in each.co_names}


def imports(code: types.CodeType, package: str) -> Iterator[str]:
    """The names of modules that code may import, those in functions included, as absolute names.

    Args:
        code: the code of a function or module.
        package: the package that relative names are relative to.
    """
    for each in _codes(code):
        # An import is preceded by the number of dots and the names that are taken from the module.
        dots: Any = 0
        names: Any = None
        for step in dis.get_instructions(each):
            if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
                dots, names = names, step.argval
            elif step.opname == "IMPORT_NAME":
                try:
                    found = importlib.util.resolve_name("." * int(dots or 0) + step.argval, package)
                except ImportError:
                    continue
                yield found
                yield from (f"{found}.{name}" for name in names or () if name != "*")


def _imported(code: types.CodeType, package: str) -> list[types.ModuleType]:
    """The modules of the user's own that code imports as it runs."""
    found = (_of_user(name) for name in dict.fromkeys(imports(code, package)))
    return [module for module in found if module is not None]


def _of_user(name: str) -> types.ModuleType | None:
    """The module of a name, which is imported for it; None if there is none, or it is of a library."""
    module = sys.modules.get(name)
    if module is None and not _is_of_library(name.partition(".")[0]):
        try:
            module = importlib.import_module(name)
        except Exception:
            # It is none, such as a name in a module; or it fails, as it then will where it is used.
            return None
    return None if module is None or is_library(module) else module


def _is_of_library(top: str) -> bool:
    """Whether a module that was not imported yet is not the user's own, or not there."""
    if (module := sys.modules.get(top)) is not None:
        return is_library(module)
    if top in sys.stdlib_module_names:
        return True
    try:
        spec = importlib.machinery.PathFinder.find_spec(top)
    except (ImportError, ValueError):
        return True
    if spec is None or spec.origin is None:
        return spec is None
    return is_library_file(spec.origin)


def modules(code: types.CodeType, package: str, folder: Path) -> Mapping[str, str]:
    """The modules below a folder that code imports, directly or by others of them: names by paths from there.

    Args:
        code: the code of a module.
        package: its package.
        folder: where it is.
    """
    found: dict[str, str] = {}
    left = [(code, package)]
    while left:
        for name in imports(*left.pop()):
            module = _of_user(name)
            file = getattr(module, "__file__", None)
            if module is None or file is None:
                continue
            path = Path(file).resolve()
            if path.suffix != ".py" or not path.is_relative_to(folder):
                continue
            short = path.relative_to(folder).as_posix()
            if short in found:
                continue
            found[short] = name
            try:
                left.append((compile(path.read_bytes(), file, "exec"), module.__package__ or ""))
            except (OSError, SyntaxError, ValueError):
                continue
    return found
