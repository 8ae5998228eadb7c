"""How much of the BPF programs the kernel's verifier follows, as the oldest and the newest clang compile them.

A kernel refuses a program of which it follows a million instructions. How many they are depends on the compiler: clang
17 made branches of LoLa's long division, and no kernel took it. The figures are those that ``veristat`` shows.
"""

from __future__ import annotations

import json
import os
import shutil

import pytest

from knee.kernel.bpf import build
from knee.kernel.bpf.loader import call

pytestmark = pytest.mark.running_kernel

#: Each program has to stay below; BBRv3's of each ACK is the longest.
BUDGET = 20_000
BUDGETS = {"bbr3_cong_control": 200_000}


def _followed(name: str, clang: str, *settings: str) -> dict[str, int]:
    told = call(build.loader(), ["verify", str(build.compiled(name, clang)), *settings], f"{clang}: {name}")
    return dict(json.loads(told))


@pytest.mark.parametrize("name", [*build.algorithms(), *build.disciplines()])
@pytest.mark.parametrize("clang", ["clang", "clang-14", "clang-16", "clang-19"])
def test_the_verifier_follows_few_instructions(clang: str, name: str) -> None:
    lacking = [*build.missing(), *(build.kernel_of_disciplines() if name in build.disciplines() else [])]
    if said := "; ".join(f"{part.what}: {part.mend}" for part in lacking):
        assert not os.environ.get("CI") or name in build.disciplines(), said
        pytest.skip(said)
    if shutil.which(clang) is None:
        pytest.skip(f"no {clang}: sudo apt-get install {clang}")
    followed = _followed(name, clang)
    assert f"{name}_cong_control" in followed or f"{name}_cong_avoid" in followed or name == "cocoa"
    over = {program: count for program, count in followed.items() if count > BUDGETS.get(program, BUDGET)}
    assert not over
