"""Writes a page for each congestion control, queue discipline and link model, from the registry and the Rust sources.

The head comment of the file that declares an entry has the idea and the equations, the declarations have the
parameters, and a run gives the picture.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import knee
from knee.cli import listing
from knee.scenario import registry
from knee.scenario.registry import Entry
from knee.study.fidelity import standing

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Run:
    """A run that shows an entry: a shipped scenario and changes to it."""

    scenario: str
    set: tuple[str, ...] = ()

    def command(self, name: str) -> str:
        """The commands that give a reader the same picture."""
        changes = "".join(f" \\\n  --set {shlex.quote(change)}" for change in self.set)
        slug = slug_of(name)
        return (
            f"knee run {self.scenario}{changes} \\\n  --out results/{slug}\nknee plot results/{slug} --out {slug}.svg"
        )


@dataclass(frozen=True)
class Part:
    """A part of the registry with a page for each of its entries.

    Attributes:
        title: of the page that lists them.
        lead: its first paragraph.
        page: that page's name, and the folder of the others.
        list: the part of `knee list`.
        entries: by name.
        crate: where they are declared.
    """

    title: str
    lead: str
    page: str
    list: str
    entries: Mapping[str, Entry]
    crate: str


def parts() -> list[Part]:
    """The parts of the registry that have pages."""
    links = {**registry.of("links"), **registry.of("losses"), **registry.of("delays")}
    return [
        Part(
            "Congestion controls",
            "A flow names one of these as `cc`, and sets its parameters in `cc_params`.",
            "algorithms",
            "cc",
            registry.congestion_controls(),
            "knee-cc",
        ),
        Part(
            "Queue disciplines",
            "A link names one of these as `queue`, and sets its parameters in `queue_params`.",
            "queues",
            "queues",
            registry.queues(),
            "knee-queue",
        ),
        Part(
            "Link models",
            "A link names one of these as `model`, `loss_model` or `delay_model`. [Links](links.md) compares them.",
            "link-models",
            "links",
            links,
            "knee-link",
        ),
    ]


def slug_of(name: str) -> str:
    """A name as part of a file's."""
    return name.replace("++", "pp").replace("_", "-")


def declared(crate: str) -> dict[str, Path]:
    """The files that declare entries, by the entries' names."""
    found: dict[str, Path] = {}
    for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
        for name in re.findall(r'\bname: "([^"]+)"', path.read_text(encoding="utf-8")):
            found.setdefault(name, path)
    return found


def _code(text: str) -> str:
    """Links within the code as code."""
    return re.sub(r"\[(`[^`\]]+`)\](?:\([^)]*\))?", r"\1", text)


def head(path: Path) -> str:
    """The head comment of a Rust file as Markdown, headings two levels down, links within the code as code."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//!"):
            break
        lines.append(line.removeprefix("//!").removeprefix(" "))
    return re.sub(r"^#", "###", _code("\n".join(lines)), flags=re.M)


def equations(path: Path) -> str:
    """A list of the functions of `equations.rs` beside an algorithm, with their comments."""
    file = path.parent / "equations.rs"
    if path.name != "mod.rs" and not (file := path.with_suffix("") / "equations.rs").exists():
        return ""
    if not file.exists():
        return ""
    code = file.read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
    found = re.findall(r"((?:^///.*\n)+)(?:#\[.*\n)*pub (?:const )?fn (\w+)", code, re.M)
    text = ""
    for doc, name in found:
        said = " ".join(line.removeprefix("///").strip() for line in doc.splitlines())
        text += f"- `{name}`: {_code(said)}\n"
    return text


def example(part: Part, name: str) -> Run | None:
    """The run that shows an entry."""
    if part.page == "algorithms":
        changes = [f"flows.{i}.cc={name}" for i in (0, 1)]
        return Run("matrix", (*changes, "flows.1.start=10s", "duration=30s", "interval=100ms"))
    if part.page == "queues":
        if name in ("dualpi2", "docsis-lld"):
            return Run("l4s-beside-cubic", (f"link.queue={name}",) if name != "dualpi2" else ())
        limit = "link.limit=500 kB" if name == "bfifo" else "link.limit=330 packets"
        return Run("matrix", (f"link.queue={name}", limit, "flows.1.start=10s", "duration=30s", "interval=100ms"))
    shown = {
        "wifi": "wifi", "docsis": "docsis", "docsis-lld": "l4s-home", "lte": "lte", "nr": "nr", "leo": "leo",
    }  # fmt: skip
    if name in shown:
        return Run(shown[name])
    changes = {
        "wire": ["link.burst=30 kB"],
        "random": ["link.loss=0.001"],
        "gilbert-elliott": ["link.loss_model=gilbert-elliott", "link.loss_params.p=0.0005"],
    }.get(name, ["link.jitter=5ms"] if name == "uniform" else [f"link.delay_model={name}"])
    return None if name == "table" else Run("hello", tuple(changes))


def picture(run: Run, to: Path) -> None:
    """Draws the overview of a run, unless the file is of the same run of the same core."""
    told = json.dumps([run.scenario, run.set, knee.__version__])
    key = hashlib.sha256(told.encode() + Path(knee._core.__file__).read_bytes()).hexdigest()[:16]
    if to.exists() and key in to.read_text(encoding="utf-8")[-64:]:
        return
    knee.run(run.scenario, set=list(run.set), report=False).plot("overview").save(to)
    to.write_text(f"{to.read_text(encoding='utf-8').rstrip()}\n<!-- {key} -->\n", encoding="utf-8")


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table of Markdown."""
    lines = [list(columns)]
    lines += [["---"] * len(lines[0]), *([str(cell) for cell in row] for row in rows)]
    return "".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |\n" for row in lines
    )


def held(part: Part, name: str) -> str:
    """The references that an entry was held against."""
    if part.page == "link-models":
        return "The figures of each model are held against published ones; [Links](../links.md) names them.\n"
    rows = standing.congestion_controls() if part.list == "cc" else standing.queues()
    against = standing.brief(rows, counts=True)[name]
    where = "[fidelity](../fidelity.md#what-each-was-held-against)"
    if against == "nothing":
        return f"Nothing but the text it follows, and the tests of its equations ({where}).\n"
    return f"{against[0].upper()}{against[1:]}. How close each is stands in {where}.\n"


def entry(part: Part, name: str, source: Path, run: Run | None) -> str:
    """The page of an entry."""
    told: dict[str, Any] = listing.plain_one(part.list, name)
    about = told["about"]
    text = f"# {name}\n\n{about[0].upper()}{about[1:]}.\n\n"
    facts = [("Follows", told["source"])]
    if told.get("family"):
        facts.insert(0, ("Family", told["family"]))
    if told.get("phases"):
        facts.append(("Phases", ", ".join(f"`{phase}`" for phase in told["phases"])))
    facts.append(("Source", f"`{source.relative_to(ROOT)}`"))
    text += "".join(f"- **{key}**: {value}\n" for key, value in facts)
    text += "\n## Idea and equations\n\n" + head(source) + "\n"
    if listed := equations(source):
        text += f"\n### Each equation by itself\n\n{listed}"
    text += "\n## Parameters\n\n"
    params = told["params"]
    if params:
        shown = [
            (
                f"`{each['name']}`",
                "needed" if each["default"] is None else f"`{json.dumps(each['default'])}`",
                each["accepts"],
                each["about"],
                each["source"],
            )
            for each in params
        ]
        text += table(("parameter", "default", "accepts", "effect", "source of the default"), shown)
    else:
        text += "It has none.\n"
    if run is not None:
        text += (
            f'\n## A run\n\n<img class="figure-of-a-run" src="../_static/{slug_of(name)}.svg" '
            f'alt="Throughput, RTT, window and queue over time under {name}">\n\n'
            f"```sh\n{run.command(name)}\n```\n"
        )
    return text + f"\n## Held against\n\n{held(part, name)}"


def write(folder: Path, *, pictures: bool) -> None:
    """Writes the pages of all parts, with the figures of runs where they are wanted."""
    (folder / "_static").mkdir(exist_ok=True)
    for part in parts():
        sources = declared(part.crate)
        (folder / part.page).mkdir(exist_ok=True)
        rows = []
        for name in part.entries:
            run = example(part, name) if pictures else None
            if run is not None:
                picture(run, folder / "_static" / f"{slug_of(name)}.svg")
            text = entry(part, name, sources[name], run)
            page = folder / part.page / f"{slug_of(name)}.md"
            if page.exists():
                # A note of docs/, which goes below.
                note = re.split(r"(^```.*?^```)", page.read_text(encoding="utf-8"), flags=re.M | re.S)
                text += "\n" + "".join(x if i % 2 else re.sub(r"^#", "##", x, flags=re.M) for i, x in enumerate(note))
            page.write_text(text, encoding="utf-8")
            brief = part.entries[name]
            rows.append((f"[{name}]({part.page}/{slug_of(name)}.md)", brief.about, brief.source))
        tree = "\n".join(f"{name} <{part.page}/{slug_of(name)}>" for name in part.entries)
        text = f"# {part.title}\n\n{part.lead}\n\n{table(('name', 'what it does', 'source'), rows)}"
        text += f"\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
        (folder / f"{part.page}.md").write_text(text, encoding="utf-8")
