"""The data set of a sweep: Parquet files below ``data``, a folder per table, a part each time that rows are written.

========================  ==========================================================
``data/runs``             a row per run: its keys, seed and figures, or its error
``data/flows``            a row per flow of each run
``data/links``            a row per link and direction of each run
``data/samples``,         with ``--series``: the time series, as in a result folder,
``data/link_samples``,    with the columns ``run`` and those of the keys
``data/events``
========================  ==========================================================

A part of ``runs`` is written after the parts of the same number in the other tables: it makes them count. So whatever
stops a sweep, and whenever, what is there is whole; parts without their runs are removed when it goes on.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from knee.errors import FolderError, KneeError, RunError
from knee.figures import rows
from knee.figures.register import LINK, RUN
from knee.results import tree
from knee.study.sweeps import place
from knee.study.sweeps.columns import columns
from knee.study.sweeps.definition import Definition
from knee.study.sweeps.place import DATA, LAYOUT, NEW, OLD, PART
from knee.study.sweeps.table import FLOW_COUNTS, FLOW_FIGURES, FLOW_TEXTS
from knee.study.sweeps.work import Part, Series
from knee.system import files

#: The tables that every sweep has, with their columns but for those of the keys.
TABLES: dict[str, dict[str, type[pl.DataType]]] = {
    "runs": {
        "run": pl.Int64,
        "seed": pl.Int64,
        **dict.fromkeys(RUN, pl.Float64),
        "queue_link": pl.String,
        "packets": pl.Int64,
        "wall_s": pl.Float64,
        "digest": pl.String,
        "remarks": pl.String,
        "error": pl.String,
    },
    "flows": {
        "run": pl.Int64,
        "flow": pl.Int64,
        **dict.fromkeys(FLOW_TEXTS, pl.String),
        **dict.fromkeys(FLOW_FIGURES, pl.Float64),
        **dict.fromkeys(FLOW_COUNTS, pl.Int64),
    },
    "links": {
        "run": pl.Int64,
        "link": pl.String,
        **{figure.name: pl.Int64 if figure.whole else pl.Float64 for figure in LINK.values()},
    },
}
SERIES = ("samples", "link_samples", "events")
#: Rows are written after this time, s, and this part of the time that the sweep has taken: a long one has fewer parts.
_PATIENCE_S, _PATIENCE = 3.0, 0.02
#: Rows and bytes that are kept in memory at most.
_MOST_ROWS, _MOST_BYTES = 50_000, 64 << 20


class Writer:
    """Writes the rows of a sweep as its runs finish.

    Attributes:
        definition: the sweep, which may be replaced by one with further points.
        written: the number of runs that have been written.
    """

    def __init__(self, folder: Path, definition: Definition) -> None:
        self._folder, self._data = folder, folder / DATA
        self._place = _place(folder)
        self.definition = definition
        self._columns = columns(definition)
        self._pending = Part()
        self._size = 0
        self._begin = self._last = time.monotonic()
        self._next = max((int(number) for number in _parts(self._data)), default=0) + 1
        self.written = 0

    def add(self, part: Part) -> None:
        """Takes rows, and writes what has gathered if it is time.

        Raises:
            RunError: they cannot be written, as on a full disk; what was written before stays.
        """
        self._pending.extend(part)
        self._size += sum(len(each.samples) + len(each.link_samples) + len(each.happened) for each in part.series)
        now = time.monotonic()
        patience = max(_PATIENCE_S, _PATIENCE * (now - self._begin))
        many = len(self._pending.flows) + len(self._pending.links) > _MOST_ROWS or self._size > _MOST_BYTES
        if many or now - self._last >= patience:
            self.flush()

    def flush(self) -> None:
        """Writes what has gathered."""
        pending, self._pending, self._size = self._pending, Part(), 0
        self._last = time.monotonic()
        if not pending.runs:
            return
        keys = self._keys([row["run"] for row in pending.runs])
        tables: dict[str, pl.DataFrame] = {}
        if pending.series:
            tables |= {name: _joined(frame, keys) for name, frame in _series(pending.series).items()}
        for name, of_table in (("links", pending.links), ("flows", pending.flows), ("runs", pending.runs)):
            tables[name] = _joined(pl.DataFrame(of_table, schema=TABLES[name]), keys)
        if self._place is not None and _place(self._folder) != self._place:
            raise RunError(f"{self._folder} was removed or moved meanwhile; {len(pending.runs)} runs are not written.")
        number, self._next = self._next, self._next + 1
        try:
            write_parts(self._folder, DATA, number, tables)
        except (KneeError, OSError) as error:
            reason = str(error) if isinstance(error, KneeError) else f"{self._data}: {error.strerror}."
            kept = f"The {self.written} runs that were written before are there, and the same command goes on from them"
            raise RunError(f"{reason.rstrip('.')}. {kept}.") from None
        self.written += len(pending.runs)

    def _keys(self, runs: Sequence[int]) -> pl.DataFrame:
        points = list(self.definition.points(runs))
        given = {"run": pl.Series(runs, dtype=pl.Int64)}
        return pl.DataFrame(given | {column.name: column.series(points) for column in self._columns})


def _place(folder: Path) -> tuple[int, int] | None:
    """Device and inode, which tell a folder from another of the same name; None where there is none."""
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def check_whole(folder: Path, number: int) -> None:
    """Checks that all of a number of runs are there.

    Raises:
        RunError: some are not.
    """
    there = sum(1 for _ in rows_of(folder))
    if there < number:
        found = (
            f"{number - there} of {number} runs are missing from {folder / DATA}, where parts were removed meanwhile"
        )
        raise RunError(f"{found}; the same command makes them again.")


def _joined(frame: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """A table with the columns of the keys behind the run's number."""
    joined = frame.join(keys, on="run", how="left", maintain_order="left")
    return joined.select("run", *keys.columns[1:], *(name for name in frame.columns if name != "run"))


def _series(each: Sequence[Series]) -> dict[str, pl.DataFrame]:
    tables: dict[str, list[pl.DataFrame]] = {name: [] for name in SERIES}
    for one in each:
        frames = (
            rows.samples(rows.from_bytes(one.samples, rows.SAMPLE), one.labels, one.ccs),
            rows.links(rows.from_bytes(one.link_samples, rows.LINK), one.links),
            rows.events(rows.from_bytes(one.happened, rows.EVENT), one.links, one.events, len(one.ccs)),
        )
        for name, frame in zip(SERIES, frames, strict=True):
            tables[name].append(frame.select(pl.lit(one.run, pl.Int64).alias("run"), pl.all()))
    return {name: pl.concat(frames) for name, frames in tables.items()}


def write_parts(folder: Path, data: str, number: int, tables: Mapping[str, pl.DataFrame]) -> None:
    """Writes a part of each table; that of ``runs``, which makes the others count, is the last in ``tables``.

    Raises:
        KneeError: a part cannot be written.
    """
    for name, frame in tables.items():
        _write_part(folder, data, name, f"part-{number:06}.parquet", frame)


def _write_part(folder: Path, data: str, table: str, part: str, frame: pl.DataFrame) -> None:
    try:
        with tree.opened(folder, data, table, make=True) as handle, tree.replacing(handle, part) as file:
            files.write_frame(file, frame)
    except OSError as error:
        raise files.unwritable(folder / data / table / part, error) from None


def _parts(data: Path) -> list[str]:
    """The numbers of the parts that count, ascending."""
    names = (path.name for path in (data / "runs").glob("part-*.parquet"))
    return sorted((name[5:-8] for name in names if re.fullmatch(PART, name)), key=int)


def parts_of(folder: Path, table: str) -> list[Path]:
    """The files of a table's parts that count."""
    paths = (folder / DATA / table / f"part-{number}.parquet" for number in _parts(folder / DATA))
    return [path for path in paths if path.is_file()]


def scan(folder: Path, name: str, definition: Definition) -> pl.LazyFrame:
    """A table of the sweep in ``folder``; without rows where nothing has been written.

    Raises:
        FolderError: the sweep has no such table.
    """
    there = parts_of(folder, name)
    if there:
        found = pl.scan_parquet(there)
        with _readable(folder):
            files.check_rows(found)
        return found
    if name in SERIES:
        raise FolderError(f"{folder} has no time series; knee sweep writes them with --series.")
    keys = {column.name: column.dtype() for column in columns(definition)}
    rest = {key: kind for key, kind in TABLES[name].items() if key != "run"}
    return pl.LazyFrame(schema={"run": pl.Int64, **keys, **rest})


def collected(frame: pl.LazyFrame, folder: Path) -> pl.DataFrame:
    """The rows of a table.

    Raises:
        FolderError: a part is damaged.
    """
    with _readable(folder):
        return frame.collect()


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = " ".join(str(error).split())[:200]
        raise FolderError(
            f"The data set in {folder} cannot be read ({reason}); remove the part that is damaged from "
            f"{folder / DATA / 'runs'}, and the same command makes its runs again."
        ) from None


def tidy(folder: Path) -> None:
    """Removes what a killed process left: parts without their runs, and files that it was writing."""
    tree.remove_unfinished(folder, LAYOUT)
    if (folder / OLD).is_dir() and not os.path.lexists(folder / DATA):
        # Killed while the data set was replaced: sweep.json still describes the old one.
        (folder / OLD).rename(folder / DATA)
    counted = set(_parts(folder / DATA))
    left = [path for table in place.TABLES for path in (folder / DATA / table).glob("part-*.parquet")]
    parts = [path for path in left if path.name[5:-8] not in counted]
    tree.remove(folder, [path.relative_to(folder).as_posix() for path in parts], LAYOUT)
    tree.remove(folder, (NEW, OLD), LAYOUT)


def read(
    path: Path, columns: Sequence[str] | None = None, *, mend: str = "remove it, and its runs are made again"
) -> pl.DataFrame:
    """A part, or another table, of which ``mend`` says what helps where it is damaged.

    Raises:
        FolderError: it cannot be read.
    """
    try:
        return files.read_frame(path, columns)
    except OSError as error:
        reason = " ".join(str(error).split())[:200]
        raise FolderError(f"{path} cannot be read ({reason}); {mend}.") from None


def rows_of(folder: Path) -> Iterator[tuple[int, str, bool]]:
    """Run, digest, and whether it succeeded, of every run that is there."""
    for part in parts_of(folder, "runs"):
        frame = read(part, ["run", "digest", "error"])
        yield from ((run, digest, error is None) for run, digest, error in frame.iter_rows())


def drop_failed(folder: Path) -> None:
    """Removes the rows of runs that failed, so that they can be run again; they have no rows in other tables."""
    for part in parts_of(folder, "runs"):
        frame = pl.read_parquet(part)
        kept = frame.filter(pl.col("error").is_null())
        if kept.height < frame.height:
            _write_part(folder, DATA, "runs", part.name, kept)


def carry(
    folder: Path, numbers: Mapping[int, int], before: Definition, now: Definition, aside: Path | None = None
) -> None:
    """Renumbers the runs that are there for a changed sweep: ``numbers`` has the new by the old.

    The new data set replaces the old one when it is whole.

    Args:
        folder: the sweep's folder.
        numbers: the new numbers by the old.
        before: what the sweep was.
        now: what it is.
        aside: where the old data set is moved; None if all its runs are in the new one.
    """
    data, new, old = folder / DATA, folder / NEW, folder / OLD
    schema = {"run": pl.Int64, "_new": pl.Int64}
    mapping = pl.DataFrame({"run": list(numbers), "_new": list(numbers.values())}, schema=schema)
    drop = [column.name for column in columns(before)]
    writer = Writer(folder, now)
    for number in _parts(data):
        tables: dict[str, pl.DataFrame] = {}
        for name in (*SERIES, "links", "flows", "runs"):
            part = data / name / f"part-{number}.parquet"
            if not part.is_file():
                continue
            kept = (
                pl.read_parquet(part)
                .drop(drop, strict=False)
                .join(mapping, on="run", how="inner", maintain_order="left")
            )
            kept = kept.with_columns(run="_new").drop("_new")
            tables[name] = _joined(kept, writer._keys(kept["run"].unique(maintain_order=True).to_list()))
        # Parts of another program may have other columns; nothing of them is carried.
        if not tables["runs"].is_empty():
            write_parts(folder, NEW, int(number), tables)
    if data.exists():
        data.rename(old if aside is None else aside / DATA)
    if new.exists():
        new.rename(data)
    tree.remove(folder, (OLD,), LAYOUT)
