"""Writes the sources of the site: Markdown for Sphinx, from the documents, the registry and the docstrings.

`scripts/site.py` runs it. The documents stay what they are on a code host; here their links lead to pages of the site,
to files of the repository where its address is set (pyproject.toml, `[tool.knee]`), or are shown as the file's path.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import site_entries
import site_lessons
import site_notebooks

from knee.scenario import registry

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "site" / "pages"
#: Documents that lie elsewhere than in docs/, with the name of their page.
BESIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",
    "docs/README.md": "documentation.md",
    # play.html is the simulator, search.html the theme's.
    "docs/play.md": "simulator.md",
    "docs/search.md": "searches.md",
}
#: Pages that are not in the lists of docs/README.md, by the section that they are shown in.
MORE = {"Learn": ["lessons/README.md"], "Look up": ["api.md", "algorithms.md", "queues.md", "link-models.md"]}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```[ ]*$)", re.M | re.S)
PLAY = re.compile(r"^<!-- play: (\S*) -->$", re.M)


class SiteError(Exception):
    """A document says something that the site cannot show."""


def documents() -> dict[str, str]:
    """The documents of the site, by their paths in the repository, each with the path of its page."""
    docs = {str(path.relative_to(ROOT)): path for path in (ROOT / "docs").rglob("*.md")}
    return {name: str(path.relative_to(ROOT / "docs")) for name, path in docs.items()} | BESIDE


def address() -> str:
    """The address of the repository; empty where none is set."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["knee"]
    return str(settings["repository"]).rstrip("/")


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """Markdown with a change to what is no block of code."""
    return "".join(part if i % 2 else change(part) for i, part in enumerate(FENCE.split(text)))


def page(source: str, play: bool) -> str:
    """A document as a page.

    Args:
        source: its path in the repository.
        play: whether the page `play` is part of the site.

    Raises:
        SiteError: a link leads nowhere.
    """
    names = documents()
    repository = address()
    here = posixpath.dirname(names[source])

    def link(found: re.Match[str]) -> str:
        image, text, target = found.groups()
        path, _, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return found[0]
        to = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if to in names:
            page = posixpath.relpath(names[to], here or ".")
            return f"[{text}]({page}{'#' if anchor else ''}{anchor})"
        if image and to.startswith("docs/"):
            return f"![{text}]({posixpath.relpath(to.removeprefix('docs/'), here or '.')})"
        if not (ROOT / to).exists():
            raise SiteError(f"{source}: a link leads to {target}, which is not there")
        if repository:
            return f"[{text}]({repository}/blob/main/{to}{'#' if anchor else ''}{anchor})"
        if posixpath.basename(to) in text:
            return text
        bracketed = found.string[: found.start()].endswith("(") and found.string[found.end() :].startswith(")")
        return f"{text}: `{to}`" if bracketed else f"{text} (`{to}`)"

    def frame(found: re.Match[str]) -> str:
        return embedded(found[1], here) if play else "*The simulator runs here where the site has it: `make site`.*"

    text = (ROOT / source).read_text(encoding="utf-8")
    if source.startswith("docs/lessons/") and site_lessons.scenario_of(text) is not None:
        text = site_notebooks.SET.sub("", site_lessons.prepared(text))
        download = f"{{download}}`a notebook <{posixpath.basename(source).removesuffix('.md')}.ipynb>`"
        text = text.replace(
            "The same experiment for `knee run", f"The same experiment as {download}, or for `knee run", 1
        )
    return _outside_code(text, lambda part: PLAY.sub(frame, LINK.sub(link, part)))


def embedded(hash_: str, here: str) -> str:
    """The simulator in a frame, with an experiment."""
    place = posixpath.relpath("play.html", here or ".")
    # A lesson asks for a prediction first: its frame waits until somebody presses play.
    shown = f"{hash_}&t=0" if here == "lessons" and hash_ else hash_
    height = {"network": 420}.get((re.search(r"view=(\w+)", hash_) or ["", ""])[1], 760)
    return (
        f'<iframe class="play" src="{place}#{shown}" height="{height}" loading="lazy" title="The simulator">'
        "</iframe>\n\n"
        f'<p><a href="{place}#{re.sub(r"&?view=[a-z]+", "", shown)}">Open it on a page of its own</a></p>'
    )


def _sections() -> Iterator[tuple[str, list[str]]]:
    """The sections of docs/README.md, each with the pages that it links to, in order."""
    names = documents()
    seen: set[str] = set()
    for section in (ROOT / "docs" / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        found = []
        for _, _, target in LINK.findall(text):
            to = posixpath.normpath(posixpath.join("docs", target.partition("#")[0]))
            # A note on an algorithm of the registry is part of that algorithm's page.
            folder, name = posixpath.split(to.removesuffix(".md"))
            note = folder == "docs/algorithms" and name in registry.congestion_controls()
            if to in names and to not in seen and to != "docs/README.md" and not note:
                seen.add(to)
                found.append(names[to])
        yield title, [*found, *(name for name in MORE.get(title, []) if name not in found)]


def _index() -> str:
    """The first page, with the lists of all others."""
    trees = ""
    for title, pages in _sections():
        entries = "\n".join(name.removesuffix(".md") for name in pages)
        trees += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n"
    last = "\n".join(name.removesuffix(".md") for name in ("documentation.md", "changelog.md", "reporting.md"))
    return trees + f"\n```{{toctree}}\n:hidden:\n:caption: About\n\n{last}\n```\n"


def for_programs() -> str:
    """The site's ``llms.txt`` (llmstxt.org): what knee is, and all pages, for programs that read."""
    about = (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[1]
    listed = page("docs/README.md", play=False).split("\n", 1)[1]
    listed = re.sub(r"\.md(?=[#)])", ".html", listed)
    quoted = about.replace("\n", "\n> ")
    return f"# knee\n\n> {quoted}\n\nPrograms begin with [automation](automation.html).\n{listed}"


def write(folder: Path, *, play: bool, pictures: bool = True) -> None:
    """Writes all sources into a folder.

    Args:
        folder: where; what is there is replaced, except pictures, which are drawn again where their run has changed.
        play: whether the site has the page `play`.
        pictures: whether entries get a figure of a run.

    Raises:
        SiteError: a document cannot be shown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.rglob("*.md"):
        old.unlink()
    for source, name in documents().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(page(source, play), encoding="utf-8")
    site_notebooks.write(folder / "lessons")
    lessons = folder / "lessons" / "README.md"
    listed = re.findall(r"\]\(([\w-]+)\.md\)", lessons.read_text(encoding="utf-8"))
    with lessons.open("a", encoding="utf-8") as file:
        file.write("\n```{toctree}\n:hidden:\n\n" + "\n".join(dict.fromkeys(listed)) + "\n```\n")
    for figure in (*(ROOT / "docs").glob("*.svg"), *(ROOT / "docs" / "img").iterdir()):
        to = folder / figure.relative_to(ROOT / "docs")
        to.parent.mkdir(exist_ok=True)
        shutil.copyfile(figure, to)
    first = (PAGES / "index.md").read_text(encoding="utf-8")
    first = PLAY.sub(lambda found: embedded(found[1], "") if play else "", first)
    (folder / "index.md").write_text(first + _index(), encoding="utf-8")
    (folder / "llms.txt").write_text(for_programs(), encoding="utf-8")
    for name in ("api.md", "conf.py"):
        shutil.copyfile(PAGES / name, folder / name)
    shutil.copyfile(ROOT / "python" / "knee" / "view" / "palette.py", folder / "palette.py")
    (folder / "_static").mkdir(exist_ok=True)
    for name in ("site.css", "site.js", "icon.svg"):
        shutil.copyfile(PAGES / name, folder / "_static" / name)
    site_entries.write(folder, pictures=pictures)
