"""Modules do not import one another in circles, neither when they are loaded nor when their functions are called."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import knee
from knee import errors
from knee.errors import KneeError

PACKAGE = Path(__file__).parents[1] / "python" / "knee"


def _modules(package: Path) -> dict[str, Path]:
    """Every module's file by the module's name."""
    names = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def _imports(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Module and name of every import, also of those inside functions; not of those for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((node.module or "", alias.name) for alias in node.names)
        yield from _imports(node)


def _graph(package: Path) -> dict[str, set[str]]:
    """The modules that each module imports."""
    modules = _modules(package)
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        imports = _imports(ast.parse(path.read_text(encoding="utf-8")))
        # What is imported from a package is one of its modules, or a name in its __init__.
        found = {f"{module}.{what}" if f"{module}.{what}" in modules else module for module, what in imports}
        graph[name] = {module for module in found if module in modules}
    return graph


def test_no_modules_import_one_another_in_circles() -> None:
    graph = _graph(PACKAGE)
    assert "knee.figures.summary" in graph["knee.grounds.sim"]
    TopologicalSorter(graph).prepare()


def test_a_circle_would_be_found(tmp_path: Path) -> None:
    package = tmp_path / "toy"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from toy.b import x\n")
    (package / "b.py").write_text("def x():\n    from toy import c\n")
    (package / "c.py").write_text("import toy.a\n")
    with pytest.raises(CycleError):
        TopologicalSorter(_graph(package)).prepare()


def test_every_error_is_exported_and_dir_lists_what_is_there() -> None:
    raised = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, KneeError)}
    assert raised <= set(knee.__all__)
    assert set(knee.__all__) | {"batch", "physics"} <= set(dir(knee))
    assert all(getattr(knee, name) is not None for name in knee.__all__)


def test_modules_are_there_after_import_knee_alone() -> None:
    """As the docs write them: knee.score.evaluate, knee.gym.TRAINING."""
    named = "knee.batch.results, knee.fidelity.run, knee.gym.TRAINING, knee.physics.breaches, knee.score.evaluate"
    subprocess.run([sys.executable, "-c", f"import knee; {named}"], check=True)
