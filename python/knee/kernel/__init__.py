"""The kernel parts: building them, loading BPF programs, and cocoa over netlink."""
