"""The files that a scenario names: traces, tables, classes. They travel with its result, or their digests do.

A result folder has the traces in ``files/`` and the files of classes beside ``scenario.toml``, which names them by
their places there, so that a copy of the folder runs elsewhere. ``manifest.json`` has the digest of each. A run of that
``scenario.toml`` with another content is refused.
"""

from __future__ import annotations

import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from knee.errors import Refused, RunError, ScenarioError
from knee.own import Named, described
from knee.results.folder import manifest_of
from knee.scenario import Scenario, paths
from knee.system import files

if TYPE_CHECKING:
    from knee.results.result import Result

#: The folder of the files in a result.
FOLDER = "files"
#: Largest file that travels, bytes: hours of a recorded link. Of a larger one only the digest does.
MOST = 16 << 20


@dataclass(frozen=True)
class Files:
    """The files of a scenario, as they were when it was compiled.

    Attributes:
        names: what the result calls each, by the names in the scenario.
        places: where those are that travel, by what the result calls them.
        digests: size and SHA-256 of each, by what the result calls them, as ``inputs`` in the manifest has them.
    """

    names: Mapping[str, str]
    places: Mapping[str, Path]
    digests: Mapping[str, dict[str, Any]]

    @property
    def contents(self) -> dict[str, str]:
        """The digest of each by its name in the scenario."""
        return {name: self.digests[short]["sha256"] for name, short in self.names.items()}


def of(scenario: Scenario) -> Files:
    """The files of a scenario; one that cannot be read is left to the run, which says so."""
    names: dict[str, str] = {}
    places: dict[str, Path] = {}
    digests: dict[str, dict[str, Any]] = {}
    for name in scenario.files:
        try:
            path = paths.find_file(name).resolve()
            size, digest = path.stat().st_size, files.digest(path)
        except (OSError, Refused):
            continue
        short = name
        if size <= MOST:
            short = _free(path.name, digests)
            places[short] = path
        names[name] = short
        digests[short] = {"bytes": size, "sha256": digest}
    return Files(names, places, digests)


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """A path in the folder that no other file has."""
    plain, number = PurePosixPath(FOLDER) / name, 1
    found = plain
    while str(found) in taken:
        number += 1
        found = plain.with_stem(f"{plain.stem}-{number}")
    return str(found)


def copy(result: Result, folder: Path) -> None:
    """Writes the files of a result into its folder.

    Raises:
        RunError: one has changed since the run, or is gone.
        OSError: one cannot be written.
    """
    for name, path in result.inputs.items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        if not path.is_file():
            raise RunError(f"{path}, which the scenario names, is gone, so the result cannot keep it.")
        shutil.copyfile(path, target)
        if files.digest(target) != result.manifest["inputs"][name]["sha256"]:
            raise RunError(f"{path}, which the scenario names, has changed since the run; run it again.")


def kept_in(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Path]:
    """The files that travel with a result, by the names in its scenario."""
    listed = manifest.get("inputs")
    names = [name for name in listed if _is_inside(name)] if isinstance(listed, dict) else []
    return {name: folder / name for name in names}


def _is_inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return len(parts) == 2 and parts[0] == FOLDER and parts[1] != ".."


def check(path: Path, scenario: Scenario) -> None:
    """Refuses the scenario of a result whose files have other contents than they had for the result.

    Args:
        path: where the scenario was read from; what is not in a result folder passes.
        scenario: the scenario.

    Raises:
        ScenarioError: names the file or class.
    """
    if path.name != "scenario.toml" or (manifest := manifest_of(folder := path.resolve().parent)) is None:
        return
    copied = "expected what the result was made with; a copy of scenario.toml elsewhere runs with other files"
    inputs: Mapping[str, Any] = manifest.get("inputs") or {}
    for name in scenario.files:
        inside = Path(name)
        short = inside.relative_to(folder).as_posix() if inside.is_relative_to(folder) else name
        if short in inputs and files.digest(paths.find_file(name).resolve()) != inputs[short].get("sha256"):
            raise ScenarioError(str(path), "", f"{short} is not the file that the result was made with", copied)
    classes = {each.get("name"): each for each in manifest.get("python_classes") or ()}
    for own in scenario.own:
        if (other := _differs(own, classes.get(str(own), {}), manifest)) is not None:
            raise ScenarioError(str(path), "", f"{other} is not what the result was made with", copied)


def _differs(own: Named, recorded: Mapping[str, Any], manifest: Mapping[str, Any]) -> str | None:
    """The file of a class that is not what it was, or the class itself where something else is that it uses."""
    if "sha256" not in recorded or own.content == recorded["sha256"]:
        return None
    before, now = recorded.get("files") or {}, described(own)["files"]
    changed = next((file for file in sorted(before.keys() | now.keys()) if before.get(file) != now.get(file)), None)
    # Another Python compiles the same files to other code.
    return changed or (
        f"{own}, with what it uses,"
        if str(manifest.get("python")).split(".")[:2] == list(platform.python_version_tuple()[:2])
        else None
    )
