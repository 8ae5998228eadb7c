"""``linux/tc/q_cocoa.c``: with it tc sends what ``knee linux qdisc`` sends. Guests of the matrix try the rest."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyroute2.netlink import NLA_F_NESTED

from knee.kernel import cache, cocoa, options

pytestmark = pytest.mark.packages

TC = shutil.which("tc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
SOURCE = cache.SOURCES / "tc" / "q_cocoa.c"
#: Keeps what tc would send to the kernel in a file.
KEEPS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
	const struct nlmsghdr *header = message->msg_iov[0].iov_base;
	ssize_t (*send)(int, const struct msghdr *, int) = dlsym(RTLD_NEXT, "sendmsg");

	if (header->nlmsg_type == RTM_NEWQDISC) {
		int file = open(getenv("KEPT"), O_WRONLY | O_CREAT, 0600);

		_exit(write(file, header, header->nlmsg_len) != header->nlmsg_len);
	}
	return send(socket, message, flags);
}
"""
#: All options, as tc takes them and as ``knee linux qdisc`` does.
OPTIONS: dict[str, tuple[str, object]] = {
    "limit": ("5000", "5000 packets"),
    "memory_limit": ("4mb", "4 MiB"),
    "multiplier": ("0.5", 0.5),
    "max_increase": ("1.75", 1.75),
    "max_guard_interval": ("500ms", "500 ms"),
    "max_guard_rtts": ("2.5", 2.5),
    "base_rtt": ("20ms", "20 ms"),
    "learn_initial": ("on", True),
    "flow_limit": ("200", "200 packets"),
    "quantum": ("1514b", "1514 B"),
    "initial_quantum": ("15140", "15140 B"),
    "refill_delay": ("40ms", "40 ms"),
    "flow_max_rate": ("20mbit", "20 Mbit/s"),
    "low_rate_threshold": ("550kbit", "550 kbit/s"),
    "ce_threshold": ("2ms", "2 ms"),
    "orphan_mask": ("255", "255 packets"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin, and with a library that keeps the message."""
    if TC is None:
        pytest.skip("there is no tc here")
    folder = tmp_path_factory.mktemp("tc")
    flags = ["gcc", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-fPIC", "-shared", "-o"]
    subprocess.run([*flags, folder / "q_cocoa.so", SOURCE], check=True)
    (folder / "keeps.c").write_text(KEEPS)
    subprocess.run([*flags, folder / "keeps.so", folder / "keeps.c", "-ldl"], check=True)
    return folder


def tc(built: Path, *words: str) -> tuple[subprocess.CompletedProcess[str], bytes]:
    """What tc says of a cocoa with these options, and the message that it would send."""
    assert TC is not None
    kept = built / "kept"
    kept.unlink(missing_ok=True)
    environment = os.environ | {"TC_LIB_DIR": str(built), "LD_PRELOAD": str(built / "keeps.so"), "KEPT": str(kept)}
    command = [TC, "qdisc", "replace", "dev", "lo", "root", "cocoa", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done, kept.read_bytes() if kept.exists() else b""


def sent(message: bytes) -> dict[str, Any]:
    """The options in a message of netlink."""
    # After the headers of netlink and of a queue discipline come attributes: length, type, value.
    found, at = {}, 16 + 20
    while at < len(message):
        length, kind = (int.from_bytes(message[at + i : at + i + 2], "little") for i in (0, 2))
        found[kind] = message[at + 4 : at + length]
        at += (length + 3) & ~3
    assert found[1] == b"cocoa\0"
    # The kernel refuses nested attributes without the flag.
    options = found[2 | NLA_F_NESTED]
    read = cocoa.options(data=len(options).to_bytes(2, "little") + b"\0\0" + options)
    read.decode()
    return dict(read["attrs"])


def test_tc_and_knee_know_the_same_options() -> None:
    assert set(OPTIONS) == set(options.parameters())


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_of_tc_is_sent_as_that_of_knee(name: str, built: Path) -> None:
    for_tc, for_knee = OPTIONS[name]
    done, message = tc(built, name, for_tc)
    assert done.returncode == 0, done.stderr
    assert sent(message) == dict(options.attributes(options.parse({name: for_knee})))


def test_all_options_go_in_one_message(built: Path) -> None:
    words = [word for name, (value, _) in OPTIONS.items() for word in (name, value)]
    done, message = tc(built, *words)
    assert done.returncode == 0, done.stderr
    assert sent(message) == dict(
        options.attributes(options.parse({name: value for name, (_, value) in OPTIONS.items()}))
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["quantom", "1514"], 'cocoa has no option "quantom".'),
        (["multiplier", "-1"], 'multiplier: "-1" is no value of it.'),
        (["multiplier", "nan"], 'multiplier: "nan" is no value of it.'),
        (["multiplier", "1e9"], 'multiplier: "1e9" is no value of it.'),
        (["learn_initial", "yes"], 'learn_initial: "yes" is no value of it.'),
        (["base_rtt", "20m"], 'base_rtt: "20m" is no value of it.'),
        (["limit", "1", "limit", "2"], 'duplicate "limit"'),
        (["limit"], "Command line is not complete"),
        (["help"], "[ learn_initial { on | off } ]"),
    ],
)
def test_what_is_no_option_is_refused_and_nothing_sent(words: list[str], said: str, built: Path) -> None:
    done, message = tc(built, *words)
    assert done.returncode != 0
    assert said in done.stderr
    assert message == b""
