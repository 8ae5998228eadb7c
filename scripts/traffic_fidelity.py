"""Prints applications and probes in the simulator beside a kernel's, as docs/traffic.md has them.

With ``--make FILE.csv``, runs the cases on the kernel of the ground uml and writes their figures; patterns of cases'
names may follow. ``--from FILE.csv`` compares with such a file.
"""

from __future__ import annotations

import sys
from pathlib import Path

from knee.fidelity import traffic


def main(words: list[str]) -> None:
    """The program."""
    if words[:1] == ["--make"]:
        count = traffic.make(Path(words[1]), words[2:], lambda name: print(name, file=sys.stderr))
        print(f"{count} figures: {words[1]}")
        return
    path = traffic.RECORDING
    if words[:1] == ["--from"]:
        path, words = Path(words[1]), words[2:]
    figures = traffic.compare(traffic.read(path), words)
    print("| case | flow | figure | kernel, ms | simulator, ms | difference | holds |")
    print("|---|---|---|---|---|---|---|")
    for of in figures:
        here = "none" if of.here_ms is None else f"{of.here_ms:.2f}"
        apart = "" if of.here_ms is None else f"{of.here_ms - of.kernel_ms:+.2f} ms"
        if of.here_ms is not None and not of.is_delay:
            apart = f"{(of.here_ms / of.kernel_ms - 1) * 100:+.1f} %"
        row = (of.case, of.label, of.figure, f"{of.kernel_ms:.2f}", here, apart, "yes" if of.holds else "NO")
        print(f"| {' | '.join(row)} |")
    held = sum(of.holds for of in figures)
    cases = {of.case for of in figures}
    whole = sum(all(of.holds for of in figures if of.case == case) for case in cases)
    print(f"\n{held} of {len(figures)} figures and {whole} of {len(cases)} cases hold.")


if __name__ == "__main__":
    main(sys.argv[1:])
