"""The kernel's time series, where they lie beside the reference file: ``series/CASE.csv.gz``."""

from __future__ import annotations

import csv
import gzip
import zlib
from pathlib import Path

import numpy as np

from knee.errors import InputError
from knee.study.fidelity.compare import Curve


def cwnd(reference: Path, case: str) -> dict[int, Curve]:
    """Per flow number, (seconds since the flow's start, cwnd in packets); empty where there is no such file."""
    path = reference.parent / "series" / f"{case}.csv.gz"
    if not path.exists():
        return {}
    points: dict[int, list[tuple[float, float]]] = {}
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                points.setdefault(int(row["flow"]), []).append((float(row["t"]), float(row["cwnd"])))
    except (OSError, EOFError, KeyError, TypeError, ValueError, csv.Error, zlib.error) as error:
        raise InputError(f"{path} is not a time series ({error}); expected the columns flow, t and cwnd.") from None
    return {flow: (np.array(each)[:, 0], np.array(each)[:, 1]) for flow, each in points.items()}
