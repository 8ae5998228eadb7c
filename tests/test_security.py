"""What other users of the machine, and those who give somebody a folder or a cache, can make root do: nothing.

lab/security.md names each test of these; those of programs in a guest are in ``test_confinement.py``.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from knee.cli import main
from knee.errors import RunError
from knee.grounds.host import lab
from knee.grounds.host.host import Host
from knee.kernel import bpf, cache, tree
from knee.kernel.bpf import build
from knee.kernel.cache import Lab
from knee.results import owned
from knee.system import files, rights
from processes import below, read

roots = pytest.mark.root
#: Somebody else.
STRANGER = 65_534


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of root's, with files that are named like pins and like nothing of knee's."""
    folder = tmp_path / "victim"
    folder.mkdir()
    for name in ("link", "connections", "object", "record.json", "letters"):
        (folder / name).write_text("precious")
    return folder


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like ``/sys/fs/bpf`` where everybody may write, and empty records."""
    everybodys = tmp_path / "bpffs"
    everybodys.mkdir()
    everybodys.chmod(0o1777)
    records = tmp_path / "run" / "bpf"
    records.mkdir(parents=True)
    monkeypatch.setattr(bpf, "BPFFS", everybodys)
    monkeypatch.setattr(bpf, "PINS", everybodys / "knee")
    monkeypatch.setattr(bpf, "RECORDS", records)
    return everybodys


def untouched(victim: Path) -> bool:
    return sorted(path.name for path in victim.iterdir()) == sorted(
        ["link", "connections", "object", "record.json", "letters"]
    )


# Folders in which root removes things.


@roots
def test_a_strangers_folder_of_pins_is_refused_and_nothing_is_removed(places: Path, victim: Path) -> None:
    """``mkdir /sys/fs/bpf/knee; ln -s /victim /sys/fs/bpf/knee/daimd``, before root loads anything."""
    pins = places / "knee"
    pins.mkdir()
    (pins / "daimd").symlink_to(victim)
    os.chown(pins, STRANGER, STRANGER)
    for command in (bpf.sweep, bpf.loaded, lambda: bpf.unload("daimd"), lambda: bpf.shown("daimd")):
        with pytest.raises(RunError, match=r"bpffs/knee is not used, because the user nobody can change it; remove"):
            command()
    assert untouched(victim)


@pytest.mark.packages
@roots
@pytest.mark.parametrize("folder", ["run", "run/bpf"])
def test_a_strangers_folder_of_records_is_refused_and_named(places: Path, folder: str) -> None:
    """Also where nothing is loaded, and by commands that only show it."""
    strangers = bpf.RECORDS if folder == "run/bpf" else bpf.RECORDS.parent
    os.chown(strangers, STRANGER, STRANGER)
    for command in (bpf.sweep, bpf.loaded, bpf.disciplines, lambda: bpf.unload("daimd"), lambda: bpf.load("daimd", {})):
        with pytest.raises(RunError, match=rf"nobody can change .*; remove {strangers}\.$"):
            command()
    assert not (places / "knee").exists()


@roots
def test_a_link_in_place_of_the_folder_of_pins_is_refused(places: Path, victim: Path) -> None:
    (places / "knee").symlink_to(victim.parent)
    with pytest.raises(RunError, match="is a link or a file"):
        bpf.sweep()
    assert untouched(victim)


@roots
def test_a_link_among_pins_or_records_is_not_followed(places: Path, victim: Path) -> None:
    (places / "knee").mkdir(mode=0o700)
    for folder in (places / "knee", bpf.RECORDS):
        (folder / "daimd").symlink_to(victim)
    assert bpf.sweep() == []
    for folder, known in ((bpf.PINS, bpf._PINNED), (bpf.RECORDS, bpf._RECORDED)):
        with pytest.raises(RunError, match="is a link or a file"):
            rights.remove(folder, "daimd", known)
    assert untouched(victim)


@roots
def test_only_files_known_by_name_are_removed(places: Path) -> None:
    pins = places / "knee" / "daimd"
    pins.mkdir(parents=True, mode=0o700)
    (places / "knee").chmod(0o700)
    for name in ("link", "letters"):
        (pins / name).write_text("")
    (bpf.RECORDS / "daimd").mkdir()
    with pytest.raises(RunError, match=r"files that knee did not put there \(letters\)"):
        bpf.sweep()
    assert [path.name for path in pins.iterdir()] == ["letters"]
    # A folder of a name that no algorithm has is not looked at.
    (pins / "letters").unlink()
    (places / "knee" / "photos").mkdir()
    (places / "knee" / "photos" / "link").write_text("")
    assert bpf.sweep() == ["daimd"]
    assert (places / "knee" / "photos" / "link").exists()


_MOUNT = """
import os
from knee.kernel import bpf
while os.path.ismount(bpf.BPFFS):
    assert os.system(f"umount {bpf.BPFFS}") == 0
bpf._mount()
print(oct(bpf.BPFFS.stat().st_mode & 0o777))
"""


@roots
@pytest.mark.running_kernel
def test_the_file_system_of_pins_is_mounted_for_root_only() -> None:
    """In a mount namespace of its own, so that the machine's stays as it is."""
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", _MOUNT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0o700\n"), done.stderr


@roots
def test_a_strangers_folder_of_records_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = tmp_path / "knee"
    records.mkdir()
    os.chown(records, STRANGER, STRANGER)
    monkeypatch.setattr(owned, "RECORDS", records)
    with pytest.raises(RunError, match="because the user nobody can change it"):
        owned.sweep()
    with pytest.raises(RunError, match="because the user nobody can change it"):
        owned.Owned("knee-1-1-1").write()
    assert list(records.iterdir()) == []


# Locks.


@roots
def test_no_other_user_can_hold_a_lock_of_roots(tmp_path: Path) -> None:
    folder = tmp_path / "knee"
    folder.mkdir()
    # As an earlier version left it.
    (folder / ".lock").touch(mode=0o644)
    with owned.locked(folder):
        pass
    assert stat.S_IMODE((folder / ".lock").stat().st_mode) == 0o600
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(path.stat().st_mode | 0o011)
    hold = ["flock", "--nonblock", str(folder / ".lock"), "true"]
    done = subprocess.run(hold, user=STRANGER, group=STRANGER, extra_groups=[], capture_output=True, text=True)
    assert done.returncode != 0
    assert "Permission denied" in done.stderr


_HOLD = "import sys, fcntl; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); input()"


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a lock, which is its last argument, and does nothing."""
    (tmp_path / ".lock").touch(mode=0o600)
    command = [sys.executable, "-c", _HOLD, str(tmp_path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_waiting_for_a_lock_ends_and_names_who_holds_it(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(RunError) as failure, files.locked(tmp_path / ".lock", 0.1):
        pass
    assert f"held by process {holder.pid} ({sys.executable} -c import sys" in str(failure.value)
    assert "not released within 0.1 s" in str(failure.value)
    holder.kill()
    holder.wait()
    with files.locked(tmp_path / ".lock", 0.1) as lock:
        assert not _free(tmp_path / ".lock")
        assert lock > 0


def _free(lock: Path) -> bool:
    with lock.open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_a_link_in_place_of_a_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters").write_text("precious")
    (tmp_path / ".lock").symlink_to(tmp_path / "letters")
    with pytest.raises(RunError, match="cannot be opened"), owned.locked(tmp_path):
        pass
    assert (tmp_path / "letters").read_text() == "precious"


# Programs that root runs.


@pytest.fixture
def strangers_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of somebody else's, which the environment still names after ``su``."""
    cache_folder = tmp_path / "cache"
    for folder in (cache_folder, cache_folder / "knee", cache_folder / "knee" / "bpf", cache_folder / "knee" / "uml"):
        folder.mkdir()
        os.chown(folder, STRANGER, STRANGER)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_folder))
    for name in ("SUDO_UID", "SUDO_GID"):
        monkeypatch.delenv(name, raising=False)
    build._owner.cache_clear()
    return cache_folder


@pytest.mark.packages
@roots
@pytest.mark.skipif(bool(build.compilers()), reason="; ".join(part.what for part in build.compilers()))
@pytest.mark.parametrize("owner", ["the stranger's", "root's"])
def test_root_runs_no_loader_from_a_strangers_cache(strangers_cache: Path, owner: str) -> None:
    """Whoever the file belongs to: who owns the folder can exchange it."""
    sources = sorted((build.HERE / "loader").glob("src/*.rs"))
    named = [build.HERE / "loader" / name for name in ("Cargo.toml", "Cargo.lock")]
    key = build._digest(sorted([*named, *sources]), [build._first_line(["cargo", "--version"])])
    planted = strangers_cache / "knee" / "bpf" / f"knee-bpf-{key}"
    planted.write_text("planted")
    if owner != "root's":
        os.chown(planted, STRANGER, STRANGER)
    mend = rf"because the user nobody can change {strangers_cache}; set XDG_CACHE_HOME to a folder of root's\."
    with pytest.raises(RunError, match=mend):
        build.loader()


@roots
def test_the_folder_to_remove_is_the_one_that_a_stranger_owns(tmp_path: Path) -> None:
    (tmp_path / "strangers" / "inside").mkdir(parents=True)
    os.chown(tmp_path / "strangers", STRANGER, STRANGER)
    with (
        pytest.raises(RunError, match=rf"can change {tmp_path}/strangers; remove {tmp_path}/strangers\."),
        rights.private(tmp_path / "strangers" / "inside"),
    ):
        pass


@pytest.mark.packages
@roots
def test_root_runs_no_kernel_from_a_strangers_cache(strangers_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = strangers_cache / "knee" / "uml"
    for folder in ("lab-1", "kernel-1"):
        (place / folder).mkdir()
    (place / "kernel-1" / "linux").write_text("planted")
    told = Lab(f"{place}/lab-1", f"{place}/kernel-1/linux", "6.1.1", 250, "linux-source-6.1", "")
    (place / "current-250.json").write_text(json.dumps(asdict(told)))
    with pytest.raises(RunError, match=r"not used as root, because the user nobody can change"):
        cache.current(250)
    assert main(["run", "hello", "--ground", "uml", "--out", str(strangers_cache.parent / "out")]) == 1
    said = capsys.readouterr().err
    assert "because the user nobody can change" in said
    assert said.count("\n") == 1
    # The other grounds are still looked at.
    main(["doctor"])
    said = " ".join(capsys.readouterr().out.split())
    assert "sim" in said
    assert "XDG_CACHE_HOME" in said


@roots
@pytest.mark.parametrize("folder", ["kernels", "kernels/6.1-cloud", "uml/tree-1"])
def test_root_builds_nothing_with_what_a_stranger_can_change(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Makefiles of guests' kernels and of copies of trees run as root, also where the cache itself is root's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tree, "_place", lambda of: cache.root() / "tree-1")
    place = tmp_path / "knee" / folder
    place.mkdir(parents=True)
    os.chown(place, STRANGER, STRANGER)
    used = partial(tree.workshop, tmp_path, "250-1") if "tree" in folder else partial(cache.guests, "6.1-cloud")
    with pytest.raises(RunError, match="because the user nobody can change"):
        used()


@roots
@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_root_reads_nothing_that_a_group_or_everybody_can_change(tmp_path: Path, mode: int) -> None:
    folder, file = tmp_path / "bin", tmp_path / "bin" / "knee-switch"
    folder.mkdir()
    file.write_text("")
    os.chown(folder, 0, 100)
    folder.chmod(mode)
    with pytest.raises(RunError, match="every user" if mode & 0o002 else f"the group {rights._group(100)}"):
        rights.trusted(file, "mend it")
    folder.chmod(0o755)
    assert rights.trusted(file, "mend it") == file.resolve()


@roots
def test_what_root_runs_is_the_file_that_was_checked(tmp_path: Path) -> None:
    """A stranger's link could lead elsewhere a moment later, so that the path that is used has none."""
    (tmp_path / "program").write_text("")
    strangers = tmp_path / "strangers"
    strangers.mkdir()
    (strangers / "link").symlink_to(tmp_path / "program")
    os.chown(strangers, STRANGER, STRANGER)
    assert rights.trusted(strangers / "link", "mend it") == (tmp_path / "program").resolve()


@roots
def test_the_switch_of_the_installations_owner_runs_and_a_strangers_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "knee-switch"
    program.write_text("")
    assert lab._trusted(program) == str(program.resolve())
    os.chown(program, STRANGER, STRANGER)
    with pytest.raises(RunError, match="because the user nobody can change"):
        lab._trusted(program)
    # ``sudo .venv/bin/knee`` runs what the environment's owner put there, of which the switch is a part.
    (tmp_path / "venv").mkdir()
    os.chown(tmp_path / "venv", STRANGER, STRANGER)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    assert lab._trusted(program) == str(program.resolve())


@roots
@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
def test_where_the_machines_root_is_nobody_a_run_works(tmp_path: Path) -> None:
    """In a user namespace with one user, all that is root's belongs to the user of unmapped ids."""
    command = ["unshare", "--map-root-user", sys.executable, "-m", "knee", "run", "hello", "--no-report"]
    done = subprocess.run([*command, "--out", str(tmp_path / "out")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "manifest.json").exists()


# Files that root makes below a caller's folder.


@roots
def test_a_capture_is_not_made_where_a_link_leads(tmp_path: Path) -> None:
    """The caller can rename the unfinished folder, which is in one of theirs, and put another thing there."""
    (tmp_path / "etc").mkdir()
    folder = tmp_path / ".out.01234567.partial"
    folder.symlink_to(tmp_path / "etc")
    with ExitStack() as opened, pytest.raises(RunError, match="is a link or a file"):
        lab._capture(folder / "packets.pcapng", opened)
    folder.unlink()
    folder.mkdir()
    (folder / "packets.pcapng").symlink_to(tmp_path / "etc" / "cron")
    with ExitStack() as opened, pytest.raises(RunError, match="cannot be made"):
        lab._capture(folder / "packets.pcapng", opened)
    os.chown(folder, STRANGER, STRANGER)
    with ExitStack() as opened, pytest.raises(RunError, match="because the user nobody can change it"):
        lab._capture(folder / "packets.pcapng", opened)
    assert list((tmp_path / "etc").iterdir()) == []


@roots
def test_a_capture_is_made_below_a_folder_of_the_callers(tmp_path: Path) -> None:
    os.chown(tmp_path, STRANGER, STRANGER)
    folder = tmp_path / ".out.01234567.partial"
    folder.mkdir()
    with ExitStack() as opened:
        file = lab._capture(folder / "packets.pcapng", opened)
        os.write(file, b"packets")
    assert (folder / "packets.pcapng").read_bytes() == b"packets"


# What processes of a run may do.


def test_the_user_of_a_run_is_nobody_elses() -> None:
    user = rights.unused_user()
    assert user not in (0, STRANGER)
    with pytest.raises(KeyError):
        pwd.getpwuid(user)


def test_a_container_without_ids_to_spare_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = tmp_path / "uid_map"
    monkeypatch.setattr(rights, "_MAP", ids)
    ids.write_text("         0     100000      65536\n")
    assert 65_520 <= rights.unused_user() < 65_534
    ids.write_text("         0       1000          1\n")
    with pytest.raises(RunError, match="no user id to spare"):
        rights.unused_user()


def test_what_the_command_starts_gains_no_privileges() -> None:
    show = "from knee.cli import main; main(['--version']); print(open('/proc/self/status').read())"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True)
    assert "NoNewPrivs:\t1\n" in done.stdout


@pytest.mark.running_kernel
@pytest.mark.skipif(bool(Host().missing()), reason="; ".join(part.what for part in Host().missing()))
def test_processes_of_a_host_run_have_no_way_to_privileges(tmp_path: Path) -> None:
    """The switch, the sockets of both sides and, below them, nothing: a user of their own, and none to gain."""
    seen: dict[int, tuple[str, str, str]] = {}
    before = set(below(os.getpid()))

    def look(fraction: float) -> None:
        for pid in set(below(os.getpid())) - before:
            lines = read(Path(f"/proc/{pid}/status")).splitlines()
            status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            if status:
                seen[pid] = (status["Uid"].split("\t")[1], status["CapEff"], status["NoNewPrivs"])

    import knee

    link = {"rate": "10 Mbit/s", "limit": "50 packets"}
    data = {"duration": "1 s", "link": link, "flows": [{"cc": "cubic", "rtt": "20 ms"}]}
    knee.run(data, "host", tmp_path / "out", progress=look, pcap=True)
    assert len(seen) == 3
    users = {user for user, _, _ in seen.values()}
    assert users == {str(rights.unused_user())}
    assert {rest for _, *rest in ((a, b + c) for a, b, c in seen.values()) for rest in rest} == {"0" * 16 + "1"}
    assert (tmp_path / "out" / "packets.pcapng").stat().st_size > 1000
