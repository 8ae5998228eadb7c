"""Congestion controls whose C source a user gives: built as a module for the kernel that runs them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from pathlib import Path

from knee.errors import RunError
from knee.kernel import tools, tree
from knee.kernel.cache import RECIPE, SOURCES, Lab, fill, root, trusted
from knee.own import KernelSource
from knee.system.text import visible

#: The most of the compiler's errors that are shown.
_ERRORS = 3
#: A line in which the compiler or the linker of modules names an error.
_ERROR = re.compile(r"(?:^|.*/)(?P<where>[^/\s:]+\.[ch]:\d+(?::\d+)?: )?(?:fatal )?(?P<what>(?:error|ERROR):? .+)$")


class CompileError(RunError):
    """A source has errors; the message has the compiler's first."""


def built(lab: Lab, source: type[KernelSource]) -> Path:
    """The module of a source for the kernel of a lab; built unless it is in the cache.

    Raises:
        CompileError: with the compiler's first errors.
        RunError: a tool is missing.
    """
    about = Path(lab.kernel).parent.name
    key = hashlib.blake2b("\0".join((str(RECIPE), about, _headers(), source.text)).encode(), digest_size=8).hexdigest()
    folder = root() / f"module-{key}"
    if not folder.is_dir():
        tools.require()
        fill(folder, lambda partial: _build(lab, source, partial))
    return trusted(folder / f"{source.module}.ko")


def _headers() -> str:
    """A digest of the headers of ``linux/include``, which sources may include."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted((SOURCES / "include").rglob("*.h")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _build(lab: Lab, source: type[KernelSource], into: Path) -> None:
    place = into / "source"
    place.mkdir()
    shutil.copytree(SOURCES / "include", into / "include")
    (place / source.file).write_text(source.text, encoding="utf-8")
    (place / "Kbuild").write_text(f"obj-m := {source.module}.o\nccflags-y := -I{into / 'include'}\n", encoding="utf-8")
    kernel = Path(lab.kernel).parent
    if (kernel / "tree").is_symlink():
        work = (kernel / "tree").readlink().parent
        if tree.content(work) != json.loads((kernel / "kernel.json").read_text())["source"]:
            raise RunError(
                f"{lab.source} was built with other content since this kernel was, so no module can be built for it; "
                f"knee linux build --source {lab.source} builds what is there now."
            )
    make: list[str | Path] = ["make", "-C", kernel / "tree", "ARCH=um", f"O={kernel / 'build'}", f"M={place}"]
    said: list[str] = []
    try:
        tools.run([*make, "modules"], f"Building {source.file}", lambda line: said.append(line.rstrip()))
    except RunError as error:
        told = [f"{found['where'] or ''}{found['what']}" for line in said if (found := _ERROR.match(line)) is not None]
        if not told:
            raise
        first = " / ".join(visible(text) for text in dict.fromkeys(told[:_ERRORS]))
        rest = f", and {len(told) - _ERRORS} more" if len(told) > _ERRORS else ""
        raise CompileError(f"{source.file} does not compile for Linux {lab.release}: {first}{rest}.") from error
    shutil.copy(place / f"{source.module}.ko", into / f"{source.module}.ko")
    for left in (place, into / "include"):
        shutil.rmtree(left)
    (into / "module.json").write_text(json.dumps({"source": source.file, "kernel": lab.release}) + "\n")
