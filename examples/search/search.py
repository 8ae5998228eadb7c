"""Searches values of candidate.py's parameters by `knee score`: 200 mutations, each of the best so far.

    python search.py              # writes record.jsonl
    python search.py --replay     # does its mutations again, and compares the scores

Any search could stand here; `evaluate` is all that it takes from knee.
"""

import json
import random
import sys
from pathlib import Path

from knee.score import evaluate

HERE = Path(__file__).parent
CANDIDATE, RECORD = HERE / "candidate.py", HERE / "record.jsonl"
#: Each parameter with its first value, its least and its greatest one; times in ms.
SPACE = {
    "target": (20.0, 1.0, 200.0),
    "growth": (1.0, 0.1, 10.0),
    "yielding": (0.1, 0.01, 1.0),
    "left": (0.7, 0.2, 0.95),
    "leave": (1.0, 0.1, 4.0),
}
#: Of most candidates three networks say enough; stage 3 is for the one that is found.
STAGES, MUTATIONS = 1, 200


def score(values, **how):
    """The score of some values."""
    return evaluate(CANDIDATE, values=values | {"target": f"{values['target']} ms"}, **how).metrics["combined_score"]


def mutated(values, chance):
    """Other values: one or two of them, by a factor that is about 1.5."""
    new = dict(values)
    for name in chance.sample(list(SPACE), chance.choice((1, 2))):
        _, least, most = SPACE[name]
        new[name] = round(min(max(values[name] * chance.lognormvariate(0, 0.4), least), most), 3)
    return new


def search():
    """Yields what was tried, with its score."""
    chance = random.Random(1)
    best = {name: first for name, (first, _, _) in SPACE.items()}
    highest = 0.0
    for i in range(MUTATIONS + 1):
        values = mutated(best, chance) if i else best
        found = score(values, stages=STAGES)
        yield {"values": values, "score": found}
        if found > highest:
            best, highest = values, found
            print(f"{i:3} {highest:.4f} {best}", flush=True)


def replay(lines):
    """Scores recorded values again; gives the largest difference."""
    return max(abs(score(each["values"], stages=STAGES) - each["score"]) for each in map(json.loads, lines))


if __name__ == "__main__":
    if "--replay" in sys.argv:
        print("largest difference", replay(RECORD.read_text().splitlines()))
    else:
        tried = list(search())
        RECORD.write_text("".join(json.dumps(each) + "\n" for each in tried))
        best = max(tried, key=lambda each: each["score"])["values"]
        for values in (tried[0]["values"], best):
            print(values, "public", score(values), "held out", score(values, held_out=2))
