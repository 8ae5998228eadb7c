"""Writes what depends on where knee is published: how to get it, in texts and manifests.

`[tool.knee]` in pyproject.toml is the one setting; whoever publishes fills it in and runs `python scripts/address.py`.
With `--check` it writes nothing: it shows each line that depends on the setting, and fails if one is not as set.
A text's part stands between `<!-- address: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = re.compile(r"(<!-- address: (\w+) -->\n).*?(<!-- end -->)", re.S)
TEXTS = ("README.md", "docs/install.md", "docs/evaluate-rust.md")


@dataclass(frozen=True)
class Addresses:
    """Where knee is published; empty where it is not."""

    repository: str
    site: str
    package: str
    crates: bool = False
    doi: str = ""

    @property
    def clone(self) -> str:
        """The lines that make a checkout, to stand before others."""
        if not self.repository:
            return ""
        return (
            f"git clone {self.repository}\ncd {self.repository.rstrip('/').rpartition('/')[2].removesuffix('.git')}\n"
        )

    def readme(self) -> str:
        """How to begin."""
        if self.package:
            way = f"With Python 3.11 or later and no compiler: `pip install {self.package}`, then `knee run hello`."
        else:
            way = (
                "From a wheel ([how to get one](docs/install.md)), with Python 3.11 or later and no compiler: "
                "`pip install knee-*.whl`, then\n`knee run hello`."
            )
        site = f"The documentation is at {self.site}. " if self.site else ""
        return (
            f"{site}{way} Or from a checkout, with Linux, Python and Rust 1.88 or later ([rustup.rs](https://rustup.rs)):\n\n"
            f"<!-- not run: it is the build itself -->\n```sh\n{self.clone}"
            "make demo    # builds, simulates the figure above, prints the path of its report\n"
            "make test    # sets up, then lints, checks types and tests what needs only Python and Rust\n```\n"
        )

    def wheel(self) -> str:
        """How to install without a compiler."""
        if self.package:
            before, name = "**A wheel** has the compiled simulator in it, and needs no compiler:", self.package
        else:
            before = (
                "**A wheel** has the compiled simulator in it, and needs no compiler. knee is in no package index: "
                "take the wheel of your\nsystem from a release, or build it in a checkout with "
                "[`make dist`](../lab/release.md):"
            )
            name = "knee-0.1.0-cp311-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
        return (
            f"{before}\n\n<!-- not run: it would install into the environment of the tests -->\n```sh\n"
            "python3 -m venv knee-env\n. knee-env/bin/activate      # on Windows: knee-env\\Scripts\\activate\n"
            f"pip install {name}\nknee run hello\n```\n"
        )

    def checkout(self) -> str:
        """How to build it."""
        return f"<!-- not run: it is the build itself -->\n```sh\n{self.clone}make demo\n```\n"

    def crate(self) -> str:
        """How a crate gets the library that evaluates."""
        if self.crates:
            return (
                "It is a dependency of tests only:\n\n<!-- not run: it changes the reader's own crate -->\n```sh\n"
                "cargo add --dev knee-evaluate\ncargo test --release\n```\n"
            )
        at = f"--git {self.repository}" if self.repository else "--path ../knee/crates/knee-evaluate"
        where = "the repository" if self.repository else "a checkout beside your crate"
        return (
            f"The crate is not on crates.io. Take it from {where}, as a dependency of tests only:\n\n"
            "<!-- not run: it changes the reader's own crate -->\n```sh\n"
            f"cargo add --dev knee-evaluate {at}\ncargo test --release\n```\n"
        )


def addresses() -> Addresses:
    """The setting."""
    return Addresses(**tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["knee"])


def written(name: str, text: str, given: Addresses) -> str:
    """A text or manifest with its parts as the addresses make them."""
    if name == "pyproject.toml":
        named = {"Repository": given.repository, "Documentation": given.site}
        urls = "".join(f'{key} = "{at}"\n' for key, at in named.items() if at)
        text = re.sub(r"^\[project\.urls\]\n(?:.+\n)*\n", "", text, flags=re.M)
        return text.replace("[project.scripts]", f"[project.urls]\n{urls}\n[project.scripts]", 1) if urls else text
    if name == "CITATION.cff":
        named = {"doi": given.doi, "repository-code": given.repository, "url": given.site}
        lines = "".join(f'{key}: "{at}"\n' for key, at in named.items() if at)
        text = re.sub(r"^(?:doi|repository-code|url): .*\n", "", text, flags=re.M)
        return re.sub(r"^version: ", f"{lines}version: ", text, count=1, flags=re.M)
    if name == "Cargo.toml":
        text = re.sub(r"^repository = .*\n", "", text, flags=re.M)
        at = f'repository = "{given.repository}"\n' if given.repository else ""
        return text.replace("[workspace.package]\n", f"[workspace.package]\n{at}", 1)
    return PARTS.sub(lambda found: found[1] + getattr(given, found[2])() + found[3], text)


#: For showing what would change, where nothing is set.
EXAMPLE = Addresses("https://git.example/knee", "https://site.example", "knee-lab", crates=True, doi="10.5281/example")
FILES = (*TEXTS, "CITATION.cff", "pyproject.toml", "Cargo.toml")


def depending(name: str, text: str) -> list[str]:
    """The lines of a file that depend on the setting, as they would be: `FILE:LINE: TEXT`."""
    none, there = (written(name, text, given).split("\n") for given in (Addresses("", "", ""), EXAMPLE))
    blocks = difflib.SequenceMatcher(None, none, there, autojunk=False).get_opcodes()
    return [f"{name}:{first + 1}: {line}" for kind, first, _, i, j in blocks if kind != "equal" for line in there[i:j]]


def main() -> int:
    """Writes, or with `--check` shows."""
    parser = argparse.ArgumentParser(description="Writes what depends on [tool.knee] in pyproject.toml.")
    parser.add_argument("--check", action="store_true", help="show the lines that depend on it, and write nothing")
    check = parser.parse_args().check
    stale = []
    for name in FILES:
        old = (ROOT / name).read_text(encoding="utf-8")
        new = written(name, old, addresses())
        if check:
            print(*depending(name, old), sep="\n")
        elif new != old:
            (ROOT / name).write_text(new, encoding="utf-8")
            print(f"{name}: written")
        if new != old:
            stale.append(name)
    if check and stale:
        print(f"not as set: {', '.join(stale)}; run python scripts/address.py", file=sys.stderr)
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
