"""The site: a page for everything that the registry has, links that lead somewhere, pages that a phone shows."""

from __future__ import annotations

import dataclasses
import pkgutil
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import knee
import knee.gym
import knee.score
from browser import DESKTOP, PHONE, Tab, needs_chromium
from knee.own import QUEUE

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import address  # noqa: E402
import site_entries  # noqa: E402
import site_pages  # noqa: E402

pytestmark = pytest.mark.docs

BUILT = ROOT / "site" / "build"
needs_site = pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="the site is not built: make site")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site_pages.write(folder, play=True, pictures=False)
    return folder


def test_every_entry_has_a_page_with_its_idea_and_all_its_parameters(sources: Path) -> None:
    parts = site_entries.parts()
    assert sum(len(part.entries) for part in parts) > 50
    for part in parts:
        for name, entry in part.entries.items():
            text = (sources / part.page / f"{site_entries.slug_of(name)}.md").read_text(encoding="utf-8")
            idea = text.partition("## Idea and equations")[2].partition("## Parameters")[0]
            assert len(idea.split()) > 20, name
            assert entry.source in text
            for param in entry.params.values():
                assert f"| `{param.name}` |" in text, (name, param.name)
                assert param.source.replace("|", "\\|") in text, (name, param.name)


def test_every_link_of_a_page_leads_to_a_page_and_each_page_is_in_a_list(sources: Path) -> None:
    pages = list(sources.rglob("*.md"))
    tree = re.compile(r"^```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)^```", re.M | re.S)
    listed = {
        (path.parent / f"{entry.split('<')[-1].rstrip('>')}.md").resolve()
        for path in pages
        for entries in tree.findall(path.read_text(encoding="utf-8"))
        for entry in entries.split("\n")
        if entry
    }
    assert {path.resolve() for path in pages} - listed == {(sources / "index.md").resolve()}
    for path in pages:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"(?<!`)\]\((?!https?:|#|mailto:)([^)#\s]+)", text):
            assert (path.parent / target).exists(), (path.name, target)


def test_no_page_takes_the_place_of_the_simulator_or_of_the_themes_pages(sources: Path) -> None:
    assert not {"play.md", "search.md", "genindex.md", "py-modindex.md"} & {path.name for path in sources.glob("*.md")}


def test_a_link_to_nowhere_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\n[b](b.md)\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[tool.knee]\nrepository = ""\n', encoding="utf-8")
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    with pytest.raises(site_pages.SiteError, match=r"docs/a\.md: a link leads to b\.md"):
        site_pages.page("docs/a.md", play=False)


@pytest.mark.parametrize(
    ("repository", "shown"),
    [
        ("", "See the model (`crates/x.rs`), x.rs (the model: `crates/x.rs`)."),
        (
            "https://h.example/knee",
            "See [the model](https://h.example/knee/blob/main/crates/x.rs), "
            "[x.rs](https://h.example/knee/blob/main/crates/x.rs) "
            "([the model](https://h.example/knee/blob/main/crates/x.rs)).",
        ),
    ],
)
def test_files_of_the_repository_are_links_where_its_address_is_set(
    repository: str, shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("docs", "crates"):
        (tmp_path / name).mkdir()
    (tmp_path / "crates" / "x.rs").write_text("", encoding="utf-8")
    text = "See [the model](../crates/x.rs), [x.rs](../crates/x.rs) ([the model](../crates/x.rs)).\n"
    (tmp_path / "docs" / "a.md").write_text(text, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(f'[tool.knee]\nrepository = "{repository}"\n', encoding="utf-8")
    monkeypatch.setattr(site_pages, "ROOT", tmp_path)
    assert site_pages.page("docs/a.md", play=False).strip() == shown


WRITTEN = address.FILES


@pytest.mark.parametrize("name", WRITTEN)
def test_what_depends_on_the_addresses_is_made_from_the_one_setting(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert address.written(name, text, address.addresses()) == text, "run python scripts/address.py"
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        assert "URL-OF-THIS" not in path.read_text(encoding="utf-8"), path.name


@pytest.mark.parametrize("name", WRITTEN)
def test_addresses_that_are_set_are_in_every_text_and_can_be_taken_back(name: str) -> None:
    none = address.Addresses("", "", "")
    given = address.Addresses("https://h.example/knee.git", "https://k.example", "knee-lab", crates=True, doi="10.1/x")
    text = address.written(name, (ROOT / name).read_text(encoding="utf-8"), none)
    there = address.written(name, text, given)
    said = {
        "docs/evaluate-rust.md": "cargo add --dev knee-evaluate\n",
        "CITATION.cff": 'doi: "10.1/x"\nrepository-code:',
    }
    assert said.get(name, "h.example") in there or "knee-lab" in there
    if name.endswith(".toml"):
        made = tomllib.loads(there)
        assert made.get("project", {}).get("urls", {}).get("Documentation") in (None, given.site)
        package = made.get("workspace", {}).get("package", {})
        assert given.repository in (
            package.get("repository"),
            made.get("project", {}).get("urls", {}).get("Repository"),
        )
    assert address.written(name, there, none) == text


def test_the_check_shows_each_place_that_depends_on_the_setting(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["address.py", "--check"])
    assert address.main() == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert {line.partition(":")[0] for line in out.splitlines()} == set(address.FILES)
    for name in (
        "pip install knee-lab",
        "git clone https://git.example/knee",
        'repository = "https://git.example/knee"',
    ):
        assert name in out
    changed = dataclasses.replace(address.addresses(), site="https://k.example")
    monkeypatch.setattr(address, "addresses", lambda: changed)
    assert address.main() == 1
    assert (
        capsys.readouterr().err
        == "not as set: README.md, CITATION.cff, pyproject.toml; run python scripts/address.py\n"
    )


def test_the_columns_of_frames_are_documented() -> None:
    text = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    part = text.split("\n### Columns of the frames\n")[1].split("\n### ")[0]
    result = knee.run("hello", set=["duration=1 s"], report=False)
    for name in ("samples", "links", "events"):
        rows = part.split(f"`{name}.parquet`")[1].partition("\n|---")[2].partition("\n\n")[0]
        said = [column for row in rows.split("\n") for column in re.findall(r"`(\w+)`", row.split(" | ")[0])]
        frame = getattr(result, name)
        assert said == frame.columns
        nullable = {
            column
            for row in rows.split("\n")
            if not row.endswith("| never |")
            for column in re.findall(r"`(\w+)`", row.split(" | ")[0])
        }
        assert {column for column in frame.columns if frame[column].null_count()} <= nullable


def test_the_python_page_names_every_field_of_an_ack_and_every_hook() -> None:
    text, queue = (ROOT / "docs" / "python.md").read_text(encoding="utf-8").split("\n## A queue of your own\n")
    fields = {name for name in dir(knee.Ack) if not name.startswith("_")}
    assert fields == set(re.findall(r"^\| `(\w+)` \|", text, re.M))
    hooks = {name for name in vars(knee.CongestionControl) if name.startswith("on_")}
    assert hooks == set(re.findall(r"^\| `(on_\w+)\(", text, re.M))
    assert set(QUEUE.hooks) == set(re.findall(r"^\| `(\w+)\([a-z, ]*cx\)`", queue, re.M))
    of_both = [name for of in (knee.Packet, knee.QueueContext) for name in dir(of) if not name.startswith("_")]
    assert all(re.search(rf"`{name}[`(]", queue) for name in of_both)


def test_the_reasons_of_runs_that_go_event_by_event_are_documented() -> None:
    source = (ROOT / "crates" / "knee-sim" / "src" / "simulation" / "obstacle.rs").read_text(encoding="utf-8")
    reasons = set(re.findall(r'"([^"]+)"', source.partition("impl fmt::Display")[2].partition("#[cfg(test)]")[0]))
    text = (ROOT / "lab" / "engine.md").read_text(encoding="utf-8")
    part = text.split("\n## Why a run goes event by event\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| ([^|]+) \|", part, re.M)) - {"reason", "---"} == reasons


def test_exit_codes_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from knee.cli import COMMANDS, main

    monkeypatch.chdir(tmp_path)
    assert main(["run", "hello", "--set", "duration=1 s", "--no-report"]) == 0
    assert main(["run", "there-is-none"]) == 2
    (tmp_path / "mine.py").write_text(
        "import knee\nclass Bad(knee.CongestionControl):\n    def on_ack(self, ack, control):\n        1 / 0\n",
        encoding="utf-8",
    )
    assert main(["run", "hello", "--set", "flows.0.cc=mine.py:Bad", "--allow-code", "--out", "bad"]) == 1
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert {
        name for row in re.findall(r"^\| (`knee .*?) \|", text, re.M) for name in re.findall(r"knee (\w+)", row)
    } <= set(COMMANDS)


def test_the_api_page_has_every_public_name() -> None:
    text = (ROOT / "site" / "pages" / "api.md").read_text(encoding="utf-8")
    there = {name: pkgutil.resolve_name(name) for name in re.findall(r"^\.\. auto\w+:: ([\w.]+)$", text, re.M)}
    offered = [getattr(knee, name) for name in knee.__all__ if name != "__version__"]
    offered += [knee.gym, *(getattr(knee.gym, name) for name in knee.gym.__all__), knee.score]
    missing = [each for each in offered if not any(each is known for known in there.values())]
    assert not missing
    assert {name.partition(".")[2] for name in there if name.count(".") == 1} <= {*knee.__all__, "gym", "score"}


def test_programs_find_each_page_in_llms_txt() -> None:
    text = site_pages.for_programs()
    assert text.startswith("# knee\n\n> A laboratory")
    named = {found[3].partition("#")[0] for found in site_pages.LINK.finditer(text)}
    pages = {name.replace(".md", ".html") for name in site_pages.documents().values() if "/" not in name}
    # Those that the list itself is, or that are for who changes knee.
    assert pages - named <= {
        "documentation.html",
        "architecture.html",
        "contributing.html",
        "reporting.html",
        "changelog.html",
    }
    assert not any(each.endswith(".md") for each in named)


def test_frames_become_those_of_pandas() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^<!-- not run: .*pandas.* -->\n```python\n(.*?)^```", text, re.M | re.S)
    names: dict[str, Any] = {"result": knee.run("hello", set=["duration=1 s"], report=False)}
    exec(block, names)
    assert len(names["samples"]) == len(names["result"].samples)


@needs_chromium
@needs_site
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_no_page_is_wider_than_its_window_or_complains(width: int, dark: bool) -> None:
    pages = sorted(page for page in BUILT.rglob("*.html") if "_static" not in page.parts and page.name != "play.html")
    assert len(pages) > 80
    # Colours are the theme's, and what fits a phone fits a desktop: some pages stand for all there.
    for page in pages[:: 12 if dark else 1 if width == PHONE else 4]:
        tab = Tab(page, width, dark)
        try:
            told = tab.ask()
        finally:
            tab.close()
        assert told["width"] <= width, f"{page.name} is {told['width']} px wide in a window of {width}"
        assert told["console"] == [], page.name
        assert told["broken"] == [], page.name
