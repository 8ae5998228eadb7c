"""This machine: files and locks, users and what they may do, text that is safe to display."""
