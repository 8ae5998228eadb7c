"""The kernel parts, from outside: the queue discipline cocoa over netlink."""
