"""What commands that judge share: verdicts, and the folder with those and the runs."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from knee.errors import FolderError
from knee.evaluate.verdict import CriterionVerdict
from knee.judging.folder import claim, write_verdicts
from knee.judging.verdict import Verdict
from knee.papers.items import ItemVerdict
from knee.results import tree

LAYOUT: tree.Layout = {"verdicts.json": tree.FILE, "runs": {".+": tree.RESULT}}


@pytest.mark.parametrize("kind", [ItemVerdict, CriterionVerdict])
def test_a_verdict_is_its_text_wherever_it_goes(kind: type[Verdict]) -> None:
    for verdict in kind:
        assert kind(verdict.value) is verdict
        assert pickle.loads(pickle.dumps(verdict)) is verdict
        assert json.loads(json.dumps([verdict])) == [verdict.value]
        assert verdict.style in ("yes", "no", "look", "idle")
    assert len({verdict.style for verdict in kind}) > 2


def test_only_a_failure_is_in_capitals() -> None:
    assert ItemVerdict.REPRODUCED.aloud() == "reproduced"
    assert ItemVerdict.DIFFERS.aloud("differs, cause unknown") == "DIFFERS, CAUSE UNKNOWN"
    assert CriterionVerdict.LOOK.aloud() == "must be looked at"
    assert CriterionVerdict.DOES_NOT_RUN.aloud() == "DOES NOT RUN"


def test_a_folder_is_claimed_where_nothing_is_or_what_the_command_left(tmp_path: Path) -> None:
    out = tmp_path / "out"
    claim(out, "verdicts.json", LAYOUT, "runs", by="knee judge")
    assert (out / "runs").is_dir()
    claim(out, "verdicts.json", LAYOUT, "runs", by="knee judge")
    write_verdicts(out / "verdicts.json", {"verdict": CriterionVerdict.PASSES})
    (out / "runs").rmdir()
    claim(out, "verdicts.json", LAYOUT, "runs", by="knee judge")
    assert json.loads((out / "verdicts.json").read_bytes()) == {"verdict": "passes"}


@pytest.mark.parametrize("below", [(), ("runs",)])
def test_a_folder_of_somebody_else_is_refused_and_stays(below: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FolderError, match=r"was not written by knee judge, so it is not replaced; name another folder"):
        claim(tmp_path, "verdicts.json", LAYOUT, *below, by="knee judge")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(FolderError, match="was not written by knee judge"):
        claim(tmp_path / "mine.txt", "verdicts.json", LAYOUT, *below, by="knee judge")
