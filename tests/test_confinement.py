"""What a program of a scenario can do to the machine, even if it escapes from the guest's kernel.

The launcher is asked to hold a shell in place of that kernel: what the shell can do is what a program could that took
over the kernel. The tests of whole runs hold what a program can do that does not.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import knee
from knee.errors import ProgramError, RunError
from knee.grounds import programs
from knee.grounds.programs import Executable
from knee.grounds.uml import confine
from knee.kernel.cache import SOURCES
from knee.system import rights
from uml import kernel, reachable, scenario

Shell = Callable[..., subprocess.CompletedProcess[str]]
roots = pytest.mark.root
# The launcher is compiled by gcc.
pytestmark = pytest.mark.packages

#: The launcher's parent has to be the process that starts it.
_PARENT = """
import os, subprocess, sys
launch, folder, *options = sys.argv[1:-1]
command = [launch, *options, str(os.getpid()), folder + "/none", "/bin/sh", "-c", sys.argv[-1]]
sys.exit(subprocess.run(command, stdin=subprocess.DEVNULL, cwd=folder, env={"PATH": os.defpath}).returncode)
"""


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("launch") / "launch"
    sources = sorted((SOURCES / "launch").glob("*.c"))
    subprocess.run(["gcc", "-std=gnu17", "-O2", "-Wall", "-Werror", "-static", "-o", program, *sources], check=True)
    return program


@pytest.fixture
def held(launch: Path, tmp_path: Path) -> Shell:
    """Runs a command in a shell that is confined as the kernel of a run with two programs."""
    folder = tmp_path / "guest"
    (folder / "folders").mkdir(parents=True)
    confine.give(folder)

    def run(command: str, *readable: Path) -> subprocess.CompletedProcess[str]:
        options = confine.Confinement(tuple(map(str, readable)), 2).options(64 << 20)
        words = [sys.executable, "-c", _PARENT, str(launch), str(folder), *options, command]
        return subprocess.run(words, capture_output=True, text=True, timeout=60)

    return run


def test_it_is_an_ordinary_user_without_privileges(held: Shell) -> None:
    said = held("id -u; id -G; grep -E '^(CapEff|CapPrm|NoNewPrivs|Seccomp):' /proc/self/status").stdout.split()
    user, group = confine.user()
    assert said[0] == str(user) != "0"
    if os.geteuid() == 0:
        assert said[1] == str(group)
    rest = said[said.index("CapPrm:") :]
    assert rest == ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"]


@pytest.mark.parametrize("place", ["/etc/shadow", "/root/.bashrc", "/var/log", "/home", "/dev/mem", "/sys"])
def test_it_reads_no_passwords_and_no_homes(held: Shell, place: str) -> None:
    done = held(f"if [ -d {place} ]; then ls {place}; else cat {place}; fi")
    assert done.returncode != 0
    assert done.stdout == ""


def test_it_reads_what_a_program_needs_and_not_what_lies_beside(held: Shell, tmp_path: Path) -> None:
    """Also of the caller's own files, only those that the scenario's command lines name."""
    for name in ("program", "diary"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"of the {name}\n")
    reachable(tmp_path / "program" / "file")
    reachable(tmp_path / "diary" / "file")
    command = f"cat {tmp_path}/program/file; cat {tmp_path}/diary/file; ls {tmp_path}; head -c 4 /usr/bin/env"
    done = held(command, tmp_path / "program")
    assert done.stdout == "of the program\n\x7fELF"
    assert done.stderr.count("Permission denied") == 2
    assert "of the diary" in held(f"cat {tmp_path}/diary/file", tmp_path / "diary" / "file").stdout


def test_it_writes_nothing_outside_its_folder(held: Shell, tmp_path: Path) -> None:
    """Nor does it empty or remove what it could with its user's rights."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter").write_text("precious")
    for path in (mine, mine / "letter"):
        path.chmod(0o777)
        os.chown(path, *confine.user())
    reachable(mine / "letter")
    done = held(
        f"for place in /tmp {mine} /var/tmp; do echo x > $place/knee-was-here && echo wrote; done; "
        # Its own folder is mounted there.
        "echo x > /dev/shm/knee-was-here; "
        f"rm {mine}/letter; true > {mine}/letter; mv {mine}/letter {mine}/other; echo x > here && cat here",
        mine,
    )
    assert done.stdout == "x\n"
    assert (mine / "letter").read_text() == "precious"
    assert (tmp_path / "guest" / "here").exists()
    for place in ("/tmp", "/dev/shm", "/var/tmp"):
        assert not (Path(place) / "knee-was-here").exists()


def test_all_that_it_writes_for_programs_is_limited_and_on_no_disk(held: Shell, tmp_path: Path) -> None:
    """In parts of 60 MB each, since there is a limit for a file, too."""
    done = held("for i in 1 2 3 4 5 6; do head -c 60000000 /dev/zero > folders/$i; done; du -sk folders; df folders")
    assert done.stderr.count("No space left on device") == 2
    assert 240_000 < int(done.stdout.split()[0]) <= confine.QUOTA >> 10
    assert "1-blocks" not in done.stdout
    # It was a file system in memory, which is gone.
    assert list((tmp_path / "guest" / "folders").iterdir()) == []


def test_its_processes_are_limited(held: Shell) -> None:
    done = held("i=0; while [ $i -lt 1400 ]; do sleep 30 & i=$((i + 1)); done; echo all")
    assert "all" not in done.stdout
    assert "fork" in done.stderr.lower()
    count = "i=0; while [ $i -lt 100 ]; do sleep 1 & i=$((i + 1)); done; echo all"
    assert "all" in held(count).stdout


def test_it_has_no_network_and_no_processes_but_its_own(held: Shell) -> None:
    """Neither the network of the machine nor its loopback device nor abstract sockets; and nobody to signal."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind("\0knee-test-of-confinement")
        hidden.listen()
        port, name = server.getsockname()[1], "\\0knee-test-of-confinement"
        reach = (
            "use Socket; sub reach { my ($kind, $to) = @_; "
            "socket(my $s, $kind, SOCK_STREAM, 0) or die; "
            'print connect($s, $to) ? "reached\\n" : "$!\\n"; } '
            f'reach(AF_INET, pack_sockaddr_in({port}, pack("C4", 127, 0, 0, 1))); '
            f'reach(AF_UNIX, pack_sockaddr_un("{name}")); '
            'reach(AF_INET, pack_sockaddr_in(9, pack("C4", 192, 0, 2, 1)));'
        )
        done = held(f"perl -e {_quoted(reach)}")
    assert "reached" not in done.stdout
    assert done.stdout.count("\n") == 3, done.stderr
    with subprocess.Popen(["sleep", "100"]) as other:
        done = held(f"echo $$; kill -9 {other.pid} || echo nobody; kill -9 -1; echo still")
        assert other.poll() is None
        other.kill()
    # It is the second process: the first is the watcher, which no signal from inside ends.
    assert done.stdout.startswith("2\nnobody\n")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


@pytest.mark.parametrize("command", ["unshare --user true", "unshare --net true", "mount -t tmpfs none folders"])
def test_it_makes_no_namespaces_and_mounts_nothing(held: Shell, command: str) -> None:
    done = held(f"{command}; echo $?")
    assert done.stdout.strip() not in ("", "0")


def test_nothing_of_it_outlives_the_one_who_asked(launch: Path, tmp_path: Path) -> None:
    folder = tmp_path / "guest"
    folder.mkdir()
    confine.give(folder)
    options = confine.Confinement((), 1).options(0)
    words = [sys.executable, "-c", _PARENT, str(launch), str(folder), *options, "echo up; sleep 1000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        parent.kill()
        # The pipe closes when the last process that has it is gone.
        assert parent.stdout.read() == ""


def test_where_it_cannot_be_confined_it_is_refused(
    launch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No user namespaces are left, as where they are switched off."""
    folder = tmp_path / "guest"
    folder.mkdir()
    limit = 'unshare --user --map-root-user sh -c \'echo 0 > /proc/sys/user/max_user_namespaces; exec "$0" "$@"\''
    words = [sys.executable, "-c", _PARENT, str(launch), str(folder), "-c", "-u", "0", "-g", "0", "true"]
    done = subprocess.run(["sh", "-c", f'{limit} "$@"', "sh", *words], capture_output=True, text=True)
    assert done.returncode != 0
    reason = done.stderr.splitlines()[0]
    assert reason.startswith(f"{confine.CANNOT}no user namespaces: ")
    text = confine.explained(reason)
    assert "max_user_namespaces" in text
    assert "--unconfined-programs" in text
    # Which is the only other way, and root's rights are given up even then.
    monkeypatch.setenv(programs.UNCONFINED, "1")
    options = confine.Confinement((), 1).options(0)
    assert options == ["-u", str(confine.user()[0]), "-g", str(confine.user()[1])]


# What may be read.


def test_the_folder_of_a_program_is_readable_and_a_home_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "me"
    (home / "copa" / "bin").mkdir(parents=True)
    (home / "bin").mkdir()
    monkeypatch.setattr(Path, "home", lambda: home)

    for file in ("copa/sender", "copa/bin/sender", "sender", "bin/sender", "copa/notes"):
        (home / file).write_text("")
        (home / file).chmod(0o644 if "notes" in file else 0o755)

    def read(named: str, *words: str) -> set[str]:
        found = confine.readable("/", Executable(named, (named, *words), named)) - {named}
        return {str(Path(path).relative_to(home)) for path in found}

    assert read(f"{home}/copa/sender") == read(f"{home}/copa/bin/sender") == {"copa"}
    assert read(f"{home}/sender") == read(f"{home}/sender", str(home), "/tmp", "/") == set()
    assert read(f"{home}/bin/sender", f"{home}/copa/notes") == {"bin", "copa/notes"}
    # What a shell gets is a part of the command line.
    assert read(f"{home}/sender", "-c", f"cd {home}/copa/bin; exec {home}/bin/sender|cat") == {
        *("copa/bin", "bin", "bin/sender")
    }
    assert confine.readable("/rootfs", Executable("/bin/x", ("/bin/x", "/etc/x"), "/bin/x")) == {"/rootfs"}


@roots
def test_a_program_that_only_root_may_read_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    reachable(program)
    program.chmod(0o700)
    with pytest.raises(RunError, match=r"Programs never run as root, and user \d+ may not read .*/program; move it"):
        confine.check_reads(program)
    program.chmod(0o755)
    confine.check_reads(program)


# Whole runs.


@pytest.fixture
def whole() -> Callable[[str], str]:
    """What is said of a program that is a shell's command, in a run in a guest."""
    kernel()

    def run(command: str) -> str:
        program = {"send": f"sh -c {_quoted(command)}", "receive": "sleep 1000"}
        data = scenario(flows=[{"program": program, "rtt": "20 ms"}, {"cc": "cubic", "rtt": "20 ms"}], duration="2 s")
        with pytest.raises(ProgramError) as failure:
            knee.run(data, "uml", allow_programs=True)
        return str(failure.value)

    return run


@pytest.mark.uml
@roots
def test_a_program_of_roots_does_not_read_the_passwords(whole: Callable[[str], str]) -> None:
    """``knee run`` as root, and ``cat /etc/shadow`` as a flow."""
    said = whole("head -c 20 /etc/shadow; id -u; exit 3")
    assert "Permission denied" in said
    assert f"/ {confine.user()[0]}" in said or str(confine.user()[0]) in said


@pytest.mark.uml
def test_a_program_fills_no_disk(whole: Callable[[str], str]) -> None:
    """Twelve files of 60 MB would be 720 MB, each below the limit of a file."""
    said = whole("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do head -c 60000000 /dev/zero > f$i; done; du -sk .; exit 3")
    assert "No space left on device" in said
    assert int(said.split("\t")[0].split()[-1]) <= confine.QUOTA >> 10


@pytest.mark.uml
def test_a_program_makes_few_processes(whole: Callable[[str], str]) -> None:
    said = whole("i=0; while [ $i -lt 1400 ]; do sleep 9 & i=$((i + 1)); done; exit 3")
    assert "fork" in said.lower()


def test_root_is_not_the_user_of_programs() -> None:
    user, _ = confine.user()
    assert user != 0
    if os.geteuid() == 0 and not os.environ.get("SUDO_UID"):
        assert user == rights.unused_user()


@roots
def test_a_file_that_was_exchanged_is_not_read(tmp_path: Path) -> None:
    """Root reads the rows in a folder of the programs' user, who could have put a link there."""
    confine.check(tmp_path, ["rows"])
    (tmp_path / "rows").symlink_to("/etc/shadow")
    with pytest.raises(RunError, match="rows was exchanged"):
        confine.check(tmp_path, ["rows"])
    (tmp_path / "rows").unlink()
    with suppress(OSError):
        os.link("/etc/shadow", tmp_path / "rows")
    if (tmp_path / "rows").exists():
        with pytest.raises(RunError, match="rows was exchanged"):
            confine.check(tmp_path, ["rows"])
