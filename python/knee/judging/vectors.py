"""Verdicts of conformance vectors in words."""

from __future__ import annotations

from typing import Any

#: Verdicts as tables have them.
WORDS = {
    "pass": "passes", "fail": "FAILS", "broke": "BROKE", "departs": "departs", "not-reached": "not reached",
    "not-shown": "not shown", "not-told": "not told", "after": "not judged",
}  # fmt: skip


def is_broken(one: dict[str, Any]) -> bool:
    """Whether a rule of the text is broken: not a choice, and without a reason on record."""
    verdict, level = str(one["verdict"]), str(one["level"])
    return verdict == "broke" or (verdict == "fail" and level != "choice")


def _off(one: dict[str, Any]) -> str:
    """A value that was not as expected, and its place."""
    seed = f", seed {one['seed']}" if one["seed"] > 1 else ""
    found = one["found"]
    shown = "not finite" if found is None else f"{found:.6g}"
    return f"step {one['step']} at {one['at_s']:.3f} s{seed}: {one['key']} is {shown}, expected {one['expected']}"


def detail(one: dict[str, Any]) -> str:
    """A vector's details, beside its verdict."""
    match one["verdict"]:
        case "fail" | "not-reached":
            return _off(one)
        case "departs":
            return f"{one['why']} ({_off(one['off'])})"
        case "not-shown":
            return f"{one['key']} is judged, and not shown"
        case "not-told":
            return f'the interface has no event "{one["event"]}"'
        case "after":
            return f"{one['vector_before']} comes first"
        case _:
            return str(one.get("what", ""))
