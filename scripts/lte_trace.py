"""Makes the trace of the scenario `cellular-lte`: a capacity that wanders as that of a phone in a car does.

No recording, and no model of a radio: a bounded random walk. Every 100 ms the rate is multiplied by a random factor of
0.6 to 1.4 and drawn a little towards 6 Mbit/s, within 0.3 to 20 Mbit/s. At 1 in 300 of these steps nothing is carried
for 0.3 to 1.5 s. Within a step the opportunities, each of 1500 bytes, fall on milliseconds at random. Only uniform
random numbers and plain arithmetic are used, so that every machine writes the same bytes.

    python scripts/lte_trace.py > python/knee/scenarios/lte-walk.trace
"""

import sys
from random import Random

SEED = 1
DURATION_MS = 60_000
STEP_MS = 100
PACKET_BITS = 12_000
MEAN_BPMS = 6_000.0
"""6 Mbit/s in bits per ms."""
LEAST_BPMS, MOST_BPMS = 300.0, 20_000.0
FACTOR = 0.4
PULL = 0.04
"""Part of the way back to the mean that each step takes."""
OUTAGE_CHANCE = 1 / 300
OUTAGE_STEPS = (3, 15)

HEADER = f"""\
# Delivery opportunities of 1500 bytes, in ms: a synthetic LTE downlink of {DURATION_MS // 1000} s.
# Made by scripts/lte_trace.py, which says how; no recording.
"""


def opportunities() -> list[int]:
    """Times of the delivery opportunities in ms, ascending; the last one is the end of the trace."""
    random = Random(SEED)
    rate, outage, credit = MEAN_BPMS, 0, 0.0
    times: list[int] = []
    for start in range(0, DURATION_MS, STEP_MS):
        rate *= 1 + FACTOR * (2 * random.random() - 1)
        rate += PULL * (MEAN_BPMS - rate)
        rate = min(max(rate, LEAST_BPMS), MOST_BPMS)
        if outage == 0 and random.random() < OUTAGE_CHANCE:
            outage = OUTAGE_STEPS[0] + int(random.random() * (OUTAGE_STEPS[1] - OUTAGE_STEPS[0] + 1))
        if outage > 0:
            outage -= 1
            continue
        credit += rate * STEP_MS / PACKET_BITS
        times += sorted(start + int(random.random() * STEP_MS) for _ in range(int(credit)))
        credit -= int(credit)
    return [*times, DURATION_MS]


if __name__ == "__main__":
    sys.stdout.write(HEADER + "".join(f"{time}\n" for time in opportunities()))
