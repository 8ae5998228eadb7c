"""The headers of the kernel modules for kernels of 32 bits, which have no libgcc to divide 64 bits."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from knee.kernel.bpf.build import clangs

ROOT = Path(__file__).parents[1]
#: Those that modules include; BPF programs, which always have 64 bits, have others.
HEADERS = ("knee_math", "knee_cubic", "knee_filter", "knee_lola", "knee_daimd", "knee_cocoa")
#: What the kernel has, in a few lines.
KERNEL = {
    "types.h": """
        typedef unsigned char u8; typedef unsigned short u16; typedef unsigned u32; typedef int s32;
        typedef unsigned long long u64; typedef long long s64; typedef _Bool bool;
        // false and true are plain numbers
        #define false 0
        #define true 1
    """,
    "math64.h": """
        #include <linux/types.h>
        extern u64 div64_u64(u64 dividend, u64 divisor);
        extern u64 div_u64(u64 dividend, u32 divisor);
    """,
    "compiler.h": "#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))",
}
#: Functions of libgcc, and of ARM's.
LIBGCC = re.compile(r"__(?:u?div|u?mod|u?divmod)[dt]i[34]|__aeabi_u?ldivmod")
COMPILERS = [["gcc", "-m32"], ["arm-linux-gnueabihf-gcc"], ["arm-linux-gnueabi-gcc"]]
COMPILERS += [[clang, f"--target={target}"] for clang in clangs() for target in ("i686-linux-gnu", "arm-linux-gnueabi")]


@pytest.mark.packages
@pytest.mark.parametrize("compiler", COMPILERS, ids=" ".join)
def test_headers_divide_without_libgcc(compiler: list[str], tmp_path: Path) -> None:
    if shutil.which(compiler[0]) is None:
        pytest.skip(f"no {compiler[0]}")
    (tmp_path / "linux").mkdir()
    for name, text in KERNEL.items():
        (tmp_path / "linux" / name).write_text(text)
    source = tmp_path / "headers.c"
    source.write_text("".join(f'#include "{name}.h"\n' for name in HEADERS))
    include = [f"-I{folder}" for folder in (tmp_path, ROOT / "linux/include", ROOT / "linux/include/uapi")]
    for optimise in ("-O0", "-O2"):
        # Every function, used or not: some are static inline.
        told = [*compiler, "-D__KERNEL__", "-ffreestanding", "-nostdinc", optimise, "-S", "-o", "-", *include]
        told += ["-Dinline=__attribute__((used))", "-D__always_inline__=__used__", "-Wno-attributes", str(source)]
        done = subprocess.run(told, capture_output=True, text=True, timeout=60)
        if "not supported" in done.stderr or "unable to create target" in done.stderr:
            pytest.skip(f"{compiler[0]} is of another machine")
        assert done.returncode == 0, done.stderr
        assert "div64_u64" in done.stdout
        assert LIBGCC.findall(done.stdout) == []
