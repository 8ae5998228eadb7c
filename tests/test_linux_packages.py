"""The packages of ``make packages``: what can be held without building them, which takes minutes and Rust."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from knee.kernel import cache, cocoa, options
from knee.kernel.bpf.loader import PINS

LINUX = cache.SOURCES
DKMS = (LINUX / "dkms.conf").read_text()


def value(key: str) -> str:
    (found,) = re.findall(rf"^{re.escape(key)}=(.*)$", DKMS, re.MULTILINE)
    return shlex.split(found)[0]


@pytest.mark.parametrize(
    ("release", "builds"),
    [
        ("5.10.0-32-amd64", False),
        ("5.4.0-generic", False),
        ("6.0.12-amd64", False),
        ("6.1.0-50-cloud-amd64", True),
        ("6.12.117+deb13-cloud-amd64", True),
        ("6.18.15+deb13-amd64", True),
        ("7.2.12-amd64", True),
    ],
)
def test_dkms_builds_for_the_kernels_that_the_modules_take(release: str, builds: bool) -> None:
    assert (re.search(value("BUILD_EXCLUSIVE_KERNEL"), release) is not None) == builds


def test_dkms_builds_each_module_that_there_is() -> None:
    modules = {path.stem for path in (LINUX / "modules").glob("*.c")}
    assert {value(f"BUILT_MODULE_NAME[{i}]") for i in range(len(modules))} == modules
    options = value("BUILD_EXCLUSIVE_CONFIG").split()
    assert options == ["CONFIG_TCP_CONG_ADVANCED", "CONFIG_NET_SCHED"]


def test_the_unit_loads_what_the_package_has() -> None:
    unit = (LINUX / "debian" / "knee-bpf.knee-bpf@.service").read_text()
    rules = (LINUX / "debian" / "rules").read_text()
    for place in ("usr/lib/knee-bpf", "usr/sbin/knee-bpf"):
        assert f"debian/knee-bpf/{place}" in rules
        assert f"/{place}" in unit
    start, stop = (re.search(rf"^Exec{word}=(.*)$", unit, re.MULTILINE) for word in ("Start", "Stop"))
    assert start is not None
    assert stop is not None
    # Where knee linux status and top look.
    assert start[1].split()[3] == stop[1].split()[2] == f"{PINS}/%i"
    assert f"AssertPathExists=!{PINS}/%i" in unit


def test_the_packages_have_the_texts_of_their_licences() -> None:
    told = " ".join(
        re.sub(r"^ \.?$|^ ", "", line) for line in (LINUX / "debian" / "copyright").read_text().splitlines()
    )
    # Debian has GPL and Apache's licence on every machine, and no other that is used here.
    assert "/usr/share/common-licenses/GPL-2" in told
    assert "/usr/share/common-licenses/Apache-2.0" in told
    bsd = (LINUX / "LICENSE-BSD-2-Clause").read_text().partition("\n\n")[2]
    mit = (LINUX.resolve().parent / "LICENSE-MIT").read_text().partition("Permission ")[2]
    for text in (bsd, mit):
        assert " ".join(text.split()) in " ".join(told.split())


@pytest.mark.docs
def test_the_documentation_is_of_what_is_installed() -> None:
    told = (LINUX / "debian" / "README.md").read_text()
    for name in ("/usr/lib/knee-bpf", "/etc/knee-bpf/lola.conf", "knee-bpf(8)"):
        assert name in told
    assert "](" not in told


def test_purging_leaves_no_unit_behind() -> None:
    stops = (LINUX / "debian" / "knee-bpf.prerm").read_text()
    clears = (LINUX / "debian" / "knee-bpf.postrm").read_text()
    assert "systemctl stop 'knee-bpf@*.service'" in stops
    assert "/etc/systemd/system/*.wants/knee-bpf@*.service" in clears
    for script in ("prerm", "postrm"):
        subprocess.run(["sh", "-n", LINUX / "debian" / f"knee-bpf.{script}"], check=True)


def test_the_plugin_is_installed_where_tc_looks(tmp_path: Path) -> None:
    for folder in ("tc", "include"):
        shutil.copytree(LINUX / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.so"))
    command = ["make", "-s", "-C", str(tmp_path / "tc"), "install", f"DESTDIR={tmp_path}", "TC_LIB_DIR=/usr/lib/tc/"]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / "usr" / "lib" / "tc" / "q_cocoa.so").is_file()
    assert (tmp_path / "usr" / "share" / "man" / "man8" / "tc-cocoa.8").is_file()


def test_the_manual_page_has_all_options_with_their_defaults() -> None:
    page = (LINUX / "tc" / "tc-cocoa.8").read_text()
    told = _defaults(page)
    assert told.keys() == options.parameters().keys()
    for name, param in options.parameters().items():
        # tc and knee write the units of quantities differently, and give the same values.
        known = param.text(param.default).removesuffix("/s").replace("packets", "").replace(" ", "")
        assert told[name] in (known, known.removesuffix("B"), known.removesuffix(".0"), _OTHERS.get(name)), name


#: Defaults that the manual page has in other words.
_OTHERS = {"memory_limit": "32 MiB", "learn_initial": "off", "flow_max_rate": "0", "ce_threshold": "0"}


def _defaults(page: str) -> dict[str, str]:
    found = {}
    for option in page.split("\n.BI ")[1:]:
        (default,) = re.findall(r"Default: ([\w. ]*\w)", option.partition("\n.S")[0])
        found[option.split()[0]] = default.removesuffix(", which is off")
    return found


def test_the_manual_page_names_all_statistics() -> None:
    page = (LINUX / "tc" / "tc-cocoa.8").read_text()
    assert {name for name, _ in (*cocoa.QDISC_STATS, *cocoa.FLOW_STATS)} <= set(re.findall(r"\w+", page))
