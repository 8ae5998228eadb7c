"""The ground ``host``: the running Linux kernel, in network namespaces, in real time."""
