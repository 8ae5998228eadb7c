"""What ``knee reproduce`` and ``knee evaluate`` share: verdicts, and the folder that keeps judged runs."""
