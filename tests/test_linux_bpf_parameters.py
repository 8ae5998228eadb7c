"""Parameters of BPF congestion controls: read when the program runs, never compiled into its code.

Nothing here runs on the kernel or takes time: the programs are only compiled.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from knee.kernel.bpf import build

pytestmark = pytest.mark.packages


@pytest.fixture(scope="module", autouse=True)
def compilers() -> None:
    lacking = "; ".join(f"{part.what}: {part.mend}" for part in build.compilers())
    if lacking and os.environ.get("CI"):
        pytest.fail(lacking)
    if lacking:
        pytest.skip(lacking)


def _defaults(name: str) -> dict[str, int]:
    command = [build.loader(), "tunables", build.program(name)]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def _other(value: int) -> int:
    """Another value; of a switch, its other position."""
    return value + 1 if value > 1 else 1 - value


def _code(name: str, values: dict[str, int], folder: Path, *, folded: bool = False) -> list[str]:
    """The instructions of a program whose defaults are ``values``.

    With ``folded``, the compiler may take them for constants.
    """
    source = (build.HERE / f"{name}.bpf.c").read_text()
    initializer = f"params = KNEE_{name.upper()}_DEFAULTS;"
    assert source.count(initializer) == 1
    fields = ", ".join(f".{key} = {value}" for key, value in values.items())
    file = folder / f"{name}.bpf.c"
    file.write_text(source.replace(initializer, f"params = {{ {fields} }};"))
    flags = [*build._FLAGS, *(["-Dvolatile="] if folded else [])]
    headers = [f"-I{path}" for path in (build.HERE, build.HERE.parent / "include", build._multiarch())]
    command = ["clang", *flags, *headers, "-S", file, "-o", "-"]
    assembly = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # Only instructions: directives are data, among it the defaults, and what debuggers read.
    return [line for line in assembly.splitlines() if re.match(r"\t[^.#@]", line)]


@pytest.mark.parametrize("name", build.algorithms())
def test_no_default_is_compiled_into_the_code(name: str, tmp_path: Path) -> None:
    """With every default another value, the compiler makes the same code: it takes none of them for a constant."""
    defaults = _defaults(name)
    others = {key: _other(value) for key, value in defaults.items()}
    assert _code(name, others, tmp_path) == _code(name, defaults, tmp_path)


@pytest.mark.parametrize("name", build.algorithms())
def test_every_parameter_has_a_use(name: str, tmp_path: Path) -> None:
    """Where the compiler may take the defaults for constants, another default of any parameter changes the code.

    Some are used only with another value of a second one, such as daimd's ``delta0`` with ``delta0_mode``. So each is
    tried beside the defaults, and beside other values of all.
    """
    defaults = _defaults(name)
    others = {key: _other(value) for key, value in defaults.items()}
    unused = list(defaults)
    for base, changed in ((defaults, others), (others, defaults)):
        code = _code(name, base, tmp_path, folded=True)
        unused = [key for key in unused if _code(name, base | {key: changed[key]}, tmp_path, folded=True) == code]
    assert not unused
