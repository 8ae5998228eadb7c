"""Kernels without the socket's storage for BPF congestion controls: which algorithms need it, and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from knee.cli import main
from knee.errors import RunError
from knee.kernel import bpf
from knee.kernel.bpf import build

WITHOUT, WITH = b"\0sk_storage\0bpf_sk_storage_get_proto\0", b"\0bpf_sk_storage_get\0"


@pytest.fixture
def lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The type information of a kernel without it."""
    place = tmp_path / "vmlinux"
    place.write_bytes(WITHOUT)
    monkeypatch.setattr(build, "_BTF", place)
    return place


def test_only_algorithms_whose_state_is_there_need_it(lacking: Path) -> None:
    assert [name for name in build.algorithms() if build.kernel_of_storage(name)] == ["bbr3", "lola_wild"]
    lacking.write_bytes(WITHOUT + WITH)
    assert not any(build.kernel_of_storage(name) for name in build.algorithms())


@pytest.mark.usefixtures("lacking")
def test_loading_says_what_the_kernel_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "missing", list)
    with pytest.raises(RunError, match="no sk_storage for struct_ops, where lola_wild keeps its state"):
        bpf.load("lola-wild", {})


@pytest.mark.root
@pytest.mark.usefixtures("lacking")
def test_the_status_names_what_cannot_be_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["linux", "status"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name in ("bbr3", "lola_wild"):
        assert f"no sk_storage for struct_ops, where {name} keeps its state" in said
