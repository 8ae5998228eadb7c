"""The ground ``host``: the running Linux kernel, in network namespaces, in real time."""

from knee.grounds.host.host import Host

__all__ = ["Host"]
