"""Prints the Debian packages that the tests want and this machine lacks, for ``make test-tools``."""

import shutil

from knee.kernel import source, tools
from knee.kernel.bpf import build
from knee_house import matrix

#: Programs that tests start themselves, and their packages.
PROGRAMS = {
    "chromium": "chromium",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "ping": "iputils-ping",
    "tshark": "tshark",
}

own = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
print(*dict.fromkeys([*tools.packages(), *source.packages(), *build.packages(), *matrix.packages(fetches=True), *own]))
