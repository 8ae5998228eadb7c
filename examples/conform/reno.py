"""NewReno as a program for ``knee conform newreno -- python3 reno.py``: a line of JSON for each event, and one back."""

import json
import sys

hello = json.loads(sys.stdin.readline())
mss, cwnd = hello["mss"], hello["initial_cwnd"]
ssthresh, recovery = None, -1


def answer(**more):
    """Writes the answer to an event."""
    print(json.dumps({"cwnd": int(cwnd), "ssthresh": ssthresh, **more}), flush=True)


def reduce(now):
    """Halves the window; what left before now reduces no more."""
    global cwnd, ssthresh, recovery
    recovery = now
    cwnd = ssthresh = max(int(cwnd) // 2, 2 * mss)


answer(shows=["cwnd", "ssthresh"], takes=["sent", "acked", "lost", "ecn"])
for line in sys.stdin:
    event = json.loads(line)
    for _, sent, size in event.get("acked", []):
        if sent <= recovery or event["app_limited"]:
            continue
        cwnd += size if ssthresh is None or cwnd < ssthresh else mss * size / int(cwnd)
    if event.get("persistent"):
        ssthresh, cwnd, recovery = max(int(cwnd) // 2, 2 * mss), 2 * mss, -1
    elif any(sent > recovery for _, sent, _ in event.get("lost", []) + event.get("ecn", [])):
        reduce(event["t"])
    answer()
