"""The rooms of ``python/knee`` stand one above the other: a room imports only from itself and from those below it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

PACKAGE = Path(__file__).parents[1] / "python" / "knee"

#: From the lowest to the highest. lab/python.md says what each is for.
ROOMS = (
    "_core",
    "errors",
    "system",
    "own",
    "scenario",
    "figures",
    "results",
    "kernel",
    "grounds",
    "network",
    "study",
    "view",
    "judging",
    "papers",
    "evaluate",
    "score",
    "gym",
    "bench",
    "cli",
    "__main__",
)
#: Results and studies draw themselves, by what they import in a method when it is called.
SHOWN = {("results", "view"), ("study", "view")}

Import = tuple[str, str, bool]


def imports(package: Path) -> Iterator[Import]:
    """The room of each importing file, the room it imports from, and whether a function does so when it is called."""
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).with_suffix("").parts
        if parts != ("__init__",):
            for module, called in _of(ast.parse(path.read_text(encoding="utf-8")), called=False):
                yield parts[0], module, called


def _of(tree: ast.AST, called: bool) -> Iterator[tuple[str, bool]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = []
        for name in names:
            package, *rest = name.split(".")
            if package == "knee":
                # The package itself, which has the names of all rooms.
                yield (rest or ["knee"])[0], called
            elif package == "knee_house":
                yield package, called
        yield from _of(node, called or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def upward(package: Path) -> list[Import]:
    """The imports from a room above, but for those by which results and studies draw themselves."""
    return sorted(
        (room, other, called)
        for room, other, called in set(imports(package))
        if (other not in ROOMS or ROOMS.index(other) > ROOMS.index(room)) and not (called and (room, other) in SHOWN)
    )


def test_rooms_import_only_from_rooms_below_them() -> None:
    assert upward(PACKAGE) == []


def test_each_room_is_in_the_list_and_nothing_else_is() -> None:
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    assert there - {"__init__"} == set(ROOMS) - {"_core"}


def answers() -> list[tuple[str, str]]:
    """Files of the package that the ten questions of lab/python.md name, each with a name in it, or none."""
    text = (PACKAGE.parents[1] / "lab" / "python.md").read_text(encoding="utf-8")
    table = text.partition("**Ten questions")[2].partition("**One way to resume")[0]
    rows = "\n".join(line for line in table.splitlines() if line.startswith("|"))
    return re.findall(r"`([a-z_/]+\.(?:py|csv))(?:: (\w+))?`", rows)


def test_each_of_the_ten_questions_is_answered_by_what_is_there() -> None:
    text = (PACKAGE.parents[1] / "lab" / "python.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\| [^|]+\? \|", text, re.M)) == 10
    assert len(answers()) >= 14
    for file, name in answers():
        path = PACKAGE / file
        assert path.is_file(), file
        if name:
            defined = {
                getattr(node, "name", None) or getattr(target, "id", None)
                for node in ast.parse(path.read_text(encoding="utf-8")).body
                for target in (getattr(node, "targets", None) or [getattr(node, "target", node)])
            }
            assert name in defined, f"{file} has no {name}"


def test_what_draws_itself_really_does() -> None:
    assert {(room, other) for room, other, called in imports(PACKAGE) if called} >= SHOWN


@pytest.mark.parametrize(
    ("file", "text", "wanted"),
    [
        ("scenario/model.py", "from knee.results import folder", [("scenario", "results", False)]),
        ("results/result.py", "from knee.view import report", [("results", "view", False)]),
        ("results/result.py", "def plot():\n    from knee.view import report", []),
        ("results/result.py", "def plot():\n    import knee.cli.run", [("results", "cli", True)]),
        ("grounds/sim.py", "import knee", [("grounds", "knee", False)]),
        ("study/batch.py", "from knee import view", [("study", "view", False)]),
        ("cli/run.py", "from knee.scenario import load", []),
    ],
)
def test_an_import_from_above_would_be_found(tmp_path: Path, file: str, text: str, wanted: list[Import]) -> None:
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text(text)
    assert upward(tmp_path) == wanted
