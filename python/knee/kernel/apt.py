"""Debian's source packages of kernels: which there are by number, and downloading one without installing it.

apt looks where the machine's configuration says, or in another suite of the same archive, for which it gets a
configuration and package lists of its own in a temporary folder. Neither needs root nor changes anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from knee.errors import InputError, RunError
from knee.kernel import tools

#: The packages, and the numbers in their names.
PACKAGE = re.compile(r"linux-source-(\d+\.\d+)")
#: The numbers that knee was tried with.
TRIED = ("6.1", "6.12", "7.2")
#: A suite of Debian's archive: a path, since it becomes part of a URL.
_SUITE = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
#: The keys that sign Debian's suites, where the machine has them as a package.
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: An address of an archive: no more than a word, since it becomes part of a line of apt's configuration.
_ADDRESS = re.compile(r"(https?|ftp|file|copy)://?[^\s\[\]]+")


@dataclass(frozen=True)
class Apt:
    """The package lists that apt reads.

    Attributes:
        options: of apt-get and apt-cache.
        suite: the suite that they hold; None: those of the machine.
    """

    options: tuple[str, ...] = ()
    suite: str | None = None

    def numbers(self) -> list[str]:
        """The kernels whose source there is, such as 6.1, in ascending order."""
        known = {match[1] for name in self.names("linux-source-") if (match := PACKAGE.fullmatch(name))}
        # pkgnames also gives names that other packages only mention.
        return sorted((number for number in known if self.version(package(number))), key=order)

    def names(self, start: str) -> list[str]:
        """The names of packages that begin with ``start``, also of such that are only mentioned."""
        return self._said("pkgnames", start)

    def version(self, name: str) -> str | None:
        """The version of a package that apt would install."""
        found = re.search(r"Candidate: (\S+)", "\n".join(self._said("policy", name)))
        return found[1] if found and found[1] != "(none)" else None

    def download(self, name: str, version: str, into: Path) -> Path:
        """Downloads a package as an ordinary user, without installing it; its file."""
        with tempfile.TemporaryDirectory(dir=into) as folder:
            command = ["apt-get", *self.options, "download", f"{name}={version}"]
            tools.run(command, f"Getting {name}", cwd=Path(folder))
            package = next(Path(folder).glob("*.deb"))
            return package.rename(into / package.name)

    def _said(self, *words: str) -> list[str]:
        if shutil.which("apt-cache") is None:
            return []
        command = ["apt-cache", *self.options, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()


def package(number: str) -> str:
    """The name of the package with the source of Linux ``number``."""
    return f"linux-source-{number}"


def order(number: str) -> tuple[int, ...]:
    """What sorts numbers of kernels."""
    return tuple(int(part) for part in number.split("."))


@contextmanager
def lists(suite: str | None, address: str | None = None) -> Iterator[Apt]:
    """The machine's package lists, or for as long as this lasts those of another suite of an archive.

    Args:
        suite: the suite; None: those of the machine.
        address: of the archive that has the suite; None: the one that the machine's configuration has.

    Raises:
        InputError: ``suite`` is no name of a suite, or ``address`` no address.
        RunError: the archive has no such suite, or cannot be reached, or none is known.
    """
    if suite is None:
        if address is not None:
            raise InputError(f"--archive: {address} has several suites; name the one to take with --suite.")
        yield Apt()
        return
    if not _SUITE.fullmatch(suite):
        raise InputError(f"--suite: {suite} is no suite of Debian; expected one such as trixie-backports.")
    if shutil.which("apt-get") is None:
        raise RunError("There is no apt-get here; name an unpacked kernel with knee linux build --source DIR.")
    with tempfile.TemporaryDirectory(prefix="knee-apt-") as name:
        folder = Path(name)
        for part in ("lists/partial", "archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "status").touch()
        signed = f"[signed-by={_KEYS}] " if _KEYS.is_file() else ""
        (folder / "sources.list").write_text(f"deb {signed}{archive(address)} {suite} main\n")
        options = _options(folder)
        tools.run(["apt-get", *options, "update"], f"Getting the list of packages of {suite}")
        yield Apt(options, suite)


def _options(folder: Path) -> tuple[str, ...]:
    """Options of apt for a configuration of its own in a folder."""
    values = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "-",
        # Preferences of the machine are of its own suites.
        "Dir::Etc::Preferences": "-",
        "Dir::Etc::PreferencesParts": "-",
        "Dir::State": folder,
        "Dir::State::Lists": folder / "lists",
        "Dir::State::Status": folder / "status",
        "Dir::Cache": folder,
        "Acquire::Languages": "none",
        "APT::Update::Error-Mode": "any",
    }
    return tuple(word for key, value in values.items() for word in ("-o", f"{key}={value}"))


def archive(given: str | None = None) -> str:
    """The address of Debian's archive: the one given, or that of the machine's configuration.

    Raises:
        InputError: what was given is no address.
        RunError: nothing was given, and the configuration has none.
    """
    if given is not None:
        if not _ADDRESS.fullmatch(given):
            raise InputError(f"--archive: {given} is no address of an archive; expected a URL, as apt's sources have.")
        return given.rstrip("/")
    if shutil.which("apt-get") is None:
        raise RunError("There is no apt-get here, which fetches Debian's packages.")
    words = ["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Identifier: Packages"]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    found = re.search(r"^Debian Debian (\S+)$", said, re.MULTILINE)
    if found is None:
        raise RunError("apt is configured for no archive of Debian here; name one with --archive URL.")
    return found[1].rstrip("/")


def none_such(number: str, apt: Apt, there: Sequence[str]) -> InputError:
    """The error where no package has the source of a kernel."""
    where = f"Debian's suite {apt.suite} has" if apt.suite else "The package sources of this machine have"
    has = f"it has {_list(there)}" if apt.suite else f"they have {_list(there)}"
    if not there:
        has = "none of any kernel; try apt-get update" if apt.suite is None else "none of any kernel"
    if apt.suite is None:
        mend = f"Name another suite of Debian that has it, as in knee linux build {number} --suite trixie-backports"
        mend += ", or an unpacked kernel with --source DIR"
    else:
        mend = "Name another suite, or an unpacked kernel with --source DIR"
    return InputError(f"{where} no {package(number)}; {has}. {mend}.")


def _list(numbers: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(numbers[:-1]), *numbers[-1:]) if part)
