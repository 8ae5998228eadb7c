"""The kernel modules' sources against the registry and the page that tells of them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from knee.kernel.modules import declared, module_ccs
from knee.kernel.modules import parameters as encoded
from knee.own import kernel_name

ROOT = Path(__file__).resolve().parent.parent
MODULES = ROOT / "linux/modules"
INCLUDE = ROOT / "linux/include"
#: What the sources call by name.
NAMES = {"KNEE_DAIMD_HTCP": 0, "KNEE_DAIMD_LIMITED": 0}
#: Where 32 bits end before the registry's range does.
SHORTER = {("lola", "min_rtt_resets"), ("daimd", "delta0_factor")}


def _declared(cc: str) -> dict[str, tuple[int, int, int]]:
    """Default, least and greatest value of a module's parameters."""
    source = (MODULES / f"tcp_{kernel_name(cc)}.c").read_text()
    headers = "".join(path.read_text() for path in sorted(INCLUDE.glob("knee_*.h")))
    body = re.search(rf"KNEE_{kernel_name(cc).upper()}_DEFAULTS \{{(.*?)\n\}}", headers, re.DOTALL)
    assert body is not None
    defaults = {}
    for name, value in re.findall(r"\.(\w+) = ([^,]+),", body[1]):
        left, _, right = value.partition(" * ")
        defaults[name] = NAMES[left] if left in NAMES else int(left) * int(right or 1)
    declared = re.findall(r"KNEE_PARAM\(\w+, (\w+), (\d+), (\d+),\s", source)
    return {name: (defaults[name], int(least), int(most)) for name, least, most in declared}


@pytest.mark.parametrize("cc", module_ccs())
def test_module_parameters_are_the_registrys(cc: str) -> None:
    params = declared(cc)
    module = _declared(cc)
    assert set(module) == set(params)
    defaults = encoded(cc, {name: param.default for name, param in params.items()})
    assert {name: default for name, (default, _, _) in module.items()} == defaults
    for name, (_, least, most) in module.items():
        param = params[name]
        if param.kind == "bool":
            ends = (0, 1)
        elif param.kind == "choice":
            ends = (0, len(param.words) - 1)
        elif (cc, name) in SHORTER:
            ends = (encoded(cc, {name: param.min})[name], 2**32 - 1)
        else:
            ends = (encoded(cc, {name: param.min})[name], encoded(cc, {name: param.max})[name])
        assert (least, most) == ends, name


@pytest.mark.docs
@pytest.mark.parametrize("cc", module_ccs())
def test_the_page_has_every_parameter_with_its_default_and_range(cc: str) -> None:
    page = (ROOT / "docs/linux.md").read_text()
    section = page.partition(f"### `tcp_{kernel_name(cc)}`")[2].partition("\n##")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) to (\d+) \|", section, re.MULTILINE)
    assert {name: tuple(map(int, numbers)) for name, *numbers in rows} == _declared(cc)


def test_what_dkms_builds_is_what_kbuild_builds() -> None:
    built = re.search(r"obj-m := (.*)", (MODULES / "Kbuild").read_text())
    assert built is not None
    dkms = (ROOT / "linux/dkms.conf").read_text()
    assert {f"{name}.o" for name in re.findall(r'BUILT_MODULE_NAME\[\d\]="(\w+)"', dkms)} == set(built[1].split())


@pytest.mark.packages
@pytest.mark.parametrize(
    "header", sorted(path.name for path in INCLUDE.glob("knee_*.h") if path.name != "knee_compat.h")
)
def test_each_header_stands_alone_and_calls_nothing_outside(header: str, tmp_path: Path) -> None:
    """BPF programs take them as they are: no library, no 128 bits, nothing of the kernel."""
    text = re.sub(r"/\*.*?\*/", "", (INCLUDE / header).read_text(), flags=re.DOTALL)
    assert not re.search(r"__int128|\bdouble\b|\bfloat\b|\bwhile\b", text)
    compiler = shutil.which("cc")
    assert compiler is not None, "this needs a C compiler, on Debian: sudo apt-get install gcc libc6-dev"
    command = [compiler, "-x", "c", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    command += ["-ffreestanding", "-c", str(INCLUDE / header), "-o", str(tmp_path / "out.o")]
    subprocess.run(command, check=True, capture_output=True)
    symbols = subprocess.run(["nm", "-u", str(tmp_path / "out.o")], check=True, capture_output=True, text=True)
    assert symbols.stdout.strip() == ""


def test_every_file_says_its_licence() -> None:
    for path in [*INCLUDE.rglob("*.h"), *MODULES.iterdir(), *(ROOT / "linux/bench").iterdir()]:
        if path.suffix in (".c", ".h") or path.name in ("Kbuild", "Makefile"):
            assert "SPDX-License-Identifier: " in path.read_text().partition("\n")[0], path
