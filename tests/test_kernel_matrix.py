"""scripts/kernel_matrix.py: what it reads on the consoles of guests; booting kernels is not tested here."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

TREE = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("kernel_matrix", TREE / "scripts/kernel_matrix.py")
assert SPEC is not None
assert SPEC.loader is not None
matrix = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(matrix)

CONSOLE = """\
[    0.1] Booting
knee guest kernel 6.12.117+deb12-cloud-amd64\r
knee lola said libbpf: load bpf program failed
knee lola load refused\r
knee vegas load ok\r
knee vegas user Operation not permitted\r
knee vegas transfer ok\r
knee vegas restarts 4 of 5\r
knee vegas unload ok\r
"""


def test_results_are_read_by_algorithm_and_step() -> None:
    release, steps, ended = matrix.read(CONSOLE)
    assert release == "6.12.117+deb12-cloud-amd64"
    assert steps == {
        "lola": {"load": "refused"},
        "vegas": {
            "load": "ok",
            "user": "Operation not permitted",
            "transfer": "ok",
            "restarts": "4 of 5",
            "unload": "ok",
        },
    }
    assert not ended
    assert matrix.read(CONSOLE + "knee guest end ok\r\n")[2]


@pytest.mark.parametrize(
    ("step", "result", "wrong"),
    [
        ("load", "ok", False),
        ("load", "refused", True),
        ("user", "", True),
        ("restarts", "5 of 5", False),
        ("restarts", "4 of 5", True),
        # htcp has no such hook.
        ("restarts", "-", False),
        ("restarts", "", True),
    ],
)
def test_what_counts_as_failed(step: str, result: str, wrong: bool) -> None:
    assert matrix.failed(step, result) == wrong


def test_the_steps_are_those_of_the_guest(tmp_path: Path) -> None:
    source = TREE / "linux/matrix/guest.c"
    text = source.read_text()
    for step in matrix.STEPS:
        assert f"knee %s {step} " in text
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-c", "-o", tmp_path / "guest.o", source]
    subprocess.run(command, check=True)
