"""A developer's kernel tree: what tells its content, and the copy in which it is built incrementally."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from knee.errors import RunError
from knee.kernel import build, cache, given, tree
from knee.kernel.cache import Lab

#: Some of what a kernel has.
FILES = ("Makefile", "arch/um/Kconfig", "net/ipv4/tcp_cubic.c", "drivers/net/veth.c", "kernel/fork.c", "scripts/a.sh")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small tree, and an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    place = tmp_path / "linux"
    for name in FILES:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(f"{name}\n")
    (place / "link").symlink_to("Makefile")
    return place


def identity(place: Path) -> str:
    return tree.look(place)[0]


def _edit(place: Path, name: str, text: str) -> None:
    """Writes another text of the same length, and puts the file's time back."""
    before = (place / name).stat()
    (place / name).write_text(text)
    os.utime(place / name, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("with_git", [True, False])
def test_every_edit_is_another_kernel_and_what_is_put_back_is_the_same(kernel: Path, with_git: bool) -> None:
    """Three edits of ``tcp_cubic.c`` had one identity with git; without it, edits below ``drivers`` were not seen."""
    if with_git:
        subprocess.run(["git", "init", "-q"], cwd=kernel, check=True)
        subprocess.run(["git", "add", "."], cwd=kernel, check=True)
        author = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *author, "commit", "-qm", "all"], cwd=kernel, check=True)
    seen = {identity(kernel)}
    for name in FILES[2:]:
        original = (kernel / name).read_text()
        for letter in "ab":
            _edit(kernel, name, original.replace("t", letter).replace("e", letter).replace("k", letter))
            seen.add(identity(kernel))
        _edit(kernel, name, original)
        assert identity(kernel) in seen
    assert len(seen) == 1 + 2 * len(FILES[2:])
    (kernel / "net/new.c").write_text("")
    seen.add(identity(kernel))
    (kernel / "scripts/a.sh").chmod(0o755)
    seen.add(identity(kernel))
    (kernel / "link").unlink()
    (kernel / "link").symlink_to("kernel")
    seen.add(identity(kernel))
    assert len(seen) == 4 + 2 * len(FILES[2:])


def test_what_is_not_compiled_or_was_built_in_the_tree_does_not_matter(kernel: Path) -> None:
    before = identity(kernel)
    for name in ("net/ipv4/tcp_cubic.o", ".config", "include/generated/a.h", "include/config/b", "sound/a.c", ".git/x"):
        (kernel / name).parent.mkdir(parents=True, exist_ok=True)
        (kernel / name).write_text("made")
    assert identity(kernel) == before


def test_a_copy_is_what_the_tree_is_after_any_edits_and_only_they_are_copied(kernel: Path, tmp_path: Path) -> None:
    chance = random.Random(7)
    copy = tmp_path / "copy"

    def patch(into: Path) -> None:
        (into / "Makefile").write_text((into / "Makefile").read_text() + "patched\n")

    def files(place: Path) -> dict[str, str]:
        found = [path for path in place.rglob("*") if path.is_file() or path.is_symlink()]
        return {
            str(path.relative_to(place)): str(path.readlink()) if path.is_symlink() else path.read_text()
            for path in found
        }

    for _ in range(30):
        before = {name: os.lstat(copy / name).st_ctime_ns for name in files(copy)} if copy.exists() else {}
        known = files(copy) if copy.exists() else {}
        for _ in range(chance.randrange(4)):
            name = chance.choice([*FILES, "net/a.c", "net/b.c", "link"])
            place = kernel / name
            what = chance.choice(["write", "remove", "touch"])
            if what == "remove" and name not in FILES[:2]:
                place.unlink(missing_ok=True)
            elif what == "touch" and place.is_file():
                os.utime(place, ns=(0, chance.randrange(10**18)))
            elif what == "write":
                place.unlink(missing_ok=True)
                place.write_text(f"{chance.random()}\n")
        tree.renew(kernel, tree.look(kernel)[1], copy, {"Makefile": patch})
        wanted = files(kernel)
        wanted["Makefile"] += "patched\n"
        assert files(copy) == wanted
        for name, changed in before.items():
            if wanted.get(name) == known[name]:
                assert os.lstat(copy / name).st_ctime_ns == changed, name


def test_a_file_that_changes_while_it_is_copied_stops_the_build(kernel: Path, tmp_path: Path) -> None:
    found = tree.look(kernel)[1]
    (kernel / "kernel/fork.c").write_text("later")
    with pytest.raises(RunError, match=r"kernel/fork\.c changed while it was copied; build once more"):
        tree.renew(kernel, found, tmp_path / "copy", {})
    tree.renew(kernel, tree.look(kernel)[1], tmp_path / "copy", {})
    assert (tmp_path / "copy/kernel/fork.c").read_text() == "later"


@pytest.mark.packages
def test_a_tree_is_built_where_it_was_built_before_and_each_content_has_its_kernel(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compilers are left out here."""
    made: list[str] = []

    def make(sources: Path, objects: Path, identity: str, into: Path, *rest: object) -> None:
        objects.mkdir(exist_ok=True)
        made.append((sources / "net/ipv4/tcp_cubic.c").read_text())
        (into / "linux").write_text(made[-1])
        (into / "kernel.json").write_text(json.dumps({"release": "6.1.9", "hz": 250, "source": identity}))

    (kernel / "arch/um/Kconfig").write_text("\nconfig HZ\n\tint\n\tdefault 100\n")
    monkeypatch.setattr(build, "_make", make)
    monkeypatch.setattr(build, "_configure", lambda *rest: None)
    monkeypatch.setattr(build, "_lab", lambda kernel, sources, into, jobs: None)
    monkeypatch.setattr(build.tools, "require", lambda: None)
    cubic = kernel / "net/ipv4/tcp_cubic.c"

    def built(text: str) -> tuple[Lab, bool]:
        cubic.write_text(text)
        lab, new = build.build(str(kernel))
        assert Path(lab.kernel).read_text() == text
        # Without a name it is the tree that was built before, as it is now.
        assert build.build() == (lab, False)
        return lab, new

    first, new = built("one")
    assert new
    second, new = built("two")
    assert new
    assert second.kernel != first.kernel
    assert built("one") == (first, False)
    assert made == ["one", "two"]
    copy = (Path(first.kernel).parent / "tree").resolve()
    assert copy == (Path(second.kernel).parent / "tree").resolve()
    assert re.search("default 250", (copy / "arch/um/Kconfig").read_text())
    # A module is built for the kernel that was compiled last, and no other.
    with pytest.raises(RunError, match="was built with other content since this kernel was"):
        given._build(first, given_source(), kernel)
    # What nothing names any more goes.
    old = time.time() - 2 * cache._IDLE_S
    for folder in cache.root().glob("kernel-*"):
        os.utime(folder, (old, old))
    cache.set_current(first)
    assert [str(path) for path in cache.root().glob("kernel-*")] == [str(Path(first.kernel).parent)]


@pytest.mark.packages
def test_a_kernel_is_configured_again_after_all_but_edits_of_code(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def make(sources: Path, objects: Path, identity: str, into: Path, *rest: object) -> None:
        done.append("make")
        if (sources / "net/ipv4/tcp_cubic.c").read_text() == "wrong":
            raise RunError("It does not compile.")
        (into / "linux").write_text("")
        (into / "kernel.json").write_text(json.dumps({"release": "6.1.9", "hz": 250, "source": identity}))

    def built(name: str, text: str | None) -> list[str]:
        done.clear()
        if text is None:
            (kernel / name).unlink()
            # No content comes twice, of which there would be a kernel.
            (kernel / "net/once.c").write_text(name)
        else:
            (kernel / name).write_text(text)
        with suppress(RunError):
            build.build(str(kernel))
        return done

    (kernel / "arch/um/Kconfig").write_text("\nconfig HZ\n\tint\n\tdefault 100\n")
    monkeypatch.setattr(build, "_make", make)
    monkeypatch.setattr(build, "_configure", lambda *rest: done.append("configure"))
    monkeypatch.setattr(build, "_lab", lambda kernel, sources, into, jobs: None)
    monkeypatch.setattr(build.tools, "require", lambda: None)
    assert built("net/ipv4/tcp_cubic.c", "one") == ["configure", "make"]
    assert built("net/ipv4/tcp_cubic.c", "two") == ["make"]
    assert built("net/new.h", "") == ["make"]
    assert built("net/new.h", None) == ["make"]
    for name in ("net/Kconfig", "net/Makefile", "scripts/conf.c"):
        for text in ("here", None):
            assert built(name, text) == ["configure", "make"], name
    # Whatever was left half done.
    assert built("net/ipv4/tcp_cubic.c", "wrong") == ["make"]
    assert built("net/ipv4/tcp_cubic.c", "three") == ["configure", "make"]


def given_source() -> type[given.KernelSource]:
    return type("Mine", (given.KernelSource,), {"file": "mine.c", "module": "mine", "text": ""})
