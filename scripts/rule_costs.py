"""Measures what breaking a rule of BBR costs, with mutants of knee's BBRv3 on the networks of the suite bbr.

``rule_costs.py`` writes ``python/knee/evaluate/bbr-rules.toml``, which ``knee evaluate --suite bbr --explain`` reads.
It copies the sources, puts all mutants of ``rule_costs.toml`` into the copy as branches, builds it once, and runs it
once for each mutant. Each must be named by its vector. ``rule_costs.py --only bbr/headroom`` prints the costs of one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from tomli_w import dumps

ROOT = Path(__file__).parents[1]
MUTANTS = Path(__file__).with_suffix(".toml")
DRIVER = Path(__file__).with_suffix(".rs")
COPY = ROOT / "target" / "rule-costs"
TABLE = ROOT / "python" / "knee" / "evaluate" / "bbr-rules.toml"
BBR3 = Path("crates/knee-cc/src/bbr3")
#: Where evaluations refuse to run alone, which these do: a mutant is compared with the original.
RUN = Path("crates/knee-evaluate/src/run.rs")
#: What is built, and the scenarios and distributions that its sources include.
NEEDED = ("crates/", "Cargo", "python/knee/evaluate/", "python/knee/scenarios/")
#: The part of a figure below which a difference is none, as that of knee.evaluate.verdict.
MARGIN = 0.05
#: Differences up to this are none, whatever part they are: of a loss, of a delay in ms.
SLIGHT = {"loss": 0.001, "queue_delay_p95_ms": 1.0, "queue_delay_mean_ms": 1.0}
#: What a mutant is asked in the copy.
CHOSEN = """
pub(crate) fn is_mutant(number: u32) -> bool {
    static CHOSEN: std::sync::LazyLock<u32> =
        std::sync::LazyLock::new(|| std::env::var("KNEE_MUTANT").ok().and_then(|word| word.parse().ok()).unwrap_or(0));
    *CHOSEN == number
}
"""

Mutant = dict[str, Any]


def mutants() -> list[Mutant]:
    """The mutants, in the order of the file."""
    return list(tomllib.loads(MUTANTS.read_text())["mutant"])


def branch(old: str, new: str, number: int) -> str:
    """Source that is ``new`` while this mutant is chosen, else ``old``."""
    chosen = f"crate::bbr3::is_mutant({number})"
    if "MUTANT" in new:
        return new.replace("MUTANT", chosen)
    if old.endswith(";"):
        return f"if {chosen} {{ {new} }} else {{ {old} }}"
    return f"{{ if {chosen} {{ {new} }} else {{ {old} }} }}"


def mutated(sources: dict[str, str], known: list[Mutant]) -> dict[str, str]:
    """The sources by their names, with all mutants as branches.

    Raises:
        ValueError: what a mutant replaces is not there once.
    """
    made = {name: text.split("#[cfg(test)]\nmod tests {")[0] for name, text in sources.items()}
    tests = {name: text[len(made[name]) :] for name, text in sources.items()}
    for number, mutant in enumerate(known, 1):
        for old, new, file in (("old", "new", "file"), ("also_old", "also_new", "also_file")):
            if old not in mutant:
                continue
            where = list(made) if mutant.get("every") else [str(mutant.get(file) or mutant["file"])]
            count = sum(made[name].count(mutant[old]) for name in where)
            if count == 0 or (count > 1 and not mutant.get("every")):
                raise ValueError(f"{mutant['vector']}: {mutant[old]!r} is {count} times in {', '.join(where)}")
            for name in where:
                made[name] = made[name].replace(mutant[old], branch(mutant[old], mutant[new], number))
    return {name: text + tests[name] for name, text in made.items()}


def _write(path: Path, content: bytes) -> None:
    """Writes a file that differs: cargo builds again what was written."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def built() -> Path:
    """Builds the copy, and gives the program."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in (os.fsdecode(each) for each in tracked.split(b"\0") if each):
        if name.startswith(NEEDED) and not name.startswith(f"{BBR3}/"):
            # The table that this script writes is no part of what it measures.
            _write(COPY / name, b"rule = []\n" if Path(name).name == TABLE.name else (ROOT / name).read_bytes())
    evaluation = (COPY / RUN).read_text()
    _write(COPY / RUN, evaluation.replace("if against.is_empty() {", "if false {").encode())
    sources = {path.name: path.read_text() for path in sorted((ROOT / BBR3).glob("*.rs"))}
    for name, text in mutated(sources, mutants()).items():
        # Nothing that is asked at run time is known when the program is compiled.
        made = text.replace("const fn", "fn") + (CHOSEN if name == "mod.rs" else "")
        _write(COPY / BBR3 / name, made.encode())
    _write(COPY / "crates" / "knee-evaluate" / "examples" / "rule_costs.rs", DRIVER.read_bytes())
    command = ["cargo", "build", "--quiet", "--release", "-p", "knee-evaluate", "--example", "rule_costs"]
    environ = {"CARGO_TARGET_DIR": str(COPY / "target"), **os.environ}
    subprocess.run(command, cwd=COPY, check=True, env=environ)
    return Path(environ["CARGO_TARGET_DIR"]) / "release" / "examples" / "rule_costs"


def run(program: Path, number: int) -> dict[str, Any]:
    """The vectors that a mutant breaks, and its figures; those of a run before, if the program is the same."""
    kept = COPY / "found" / f"{number}.json"
    if not kept.exists() or kept.stat().st_mtime < program.stat().st_mtime:
        environ = {**os.environ, "KNEE_MUTANT": str(number)}
        done = subprocess.run([program], check=True, capture_output=True, env=environ)
        _write(kept, done.stdout)
    return dict(json.loads(kept.read_bytes()))


def costs(with_rule: list[dict[str, Any]], without: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures of which a mutant's best seed is worse than the original's worst, the greatest part first."""
    found = []
    for one, other in zip(with_rule, without, strict=True):
        sign = 1 if one["less"] else -1
        before = [sign * value for value in one["values"]]
        after = [sign * value for value in other["values"]] or [float("inf")]
        margin = max(MARGIN * abs(max(before)), SLIGHT.get(one["figure"], 0.0))
        if min(after) <= max(before) + margin:
            continue
        was = sum(one["values"]) / len(one["values"])
        now = sum(other["values"]) / len(other["values"]) if other["values"] else 0.0
        part = 1 - (was / now if one["less"] else now / was)
        kept = {"network": one["scenario"], "figure": one["figure"], "kept": round(was, 5), "broken": round(now, 5)}
        found.append({**kept, "part": round(part, 3)})
    return sorted(found, key=lambda cost: -float(cost["part"]))


def main() -> None:
    """Measures, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="one vector, whose costs are printed")
    only = parser.parse_args().only
    program = built()
    original = run(program, 0)
    if original["broken"]:
        sys.exit(f"the original breaks {', '.join(original['broken'])}")
    rules, missed = [], []
    for number, mutant in enumerate(mutants(), 1):
        if only not in (None, mutant["vector"]):
            continue
        found = run(program, number)
        if mutant["vector"] not in found["broken"]:
            missed.append(f"{mutant['vector']} (named: {', '.join(found['broken']) or 'none'})")
        cost = costs(original["figures"], found["figures"])
        worst = f"{100 * cost[0]['part']:.0f} % on {cost[0]['network']}" if cost else "no cost"
        print(f"{number:2} {mutant['vector']}: {worst}; breaks {', '.join(found['broken'])}", flush=True)
        rules.append({"vector": mutant["vector"], "change": mutant["change"], "costs": cost})
    if only is not None:
        print(dumps({"rule": rules}))
    else:
        head = (
            "# What breaking a rule of BBR costs: figures of knee's BBRv3, which keeps the rule, and of a mutant that\n"
            "# breaks it, on the networks of the suite bbr; means of two seeds. scripts/rule_costs.py wrote it.\n\n"
        )
        TABLE.write_text(head + dumps({"rule": rules}))
    if missed:
        sys.exit("Not named by their vectors:\n" + "\n".join(missed))


if __name__ == "__main__":
    main()
