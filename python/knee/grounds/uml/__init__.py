"""The ground ``uml``: a real Linux kernel in virtual time."""
