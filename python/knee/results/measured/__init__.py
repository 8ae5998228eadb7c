"""Measurements of real paths by other programs: what their files say of rate, delay and loss over time.

:func:`read` finds out the format by the content. A format is a module here with a function from the content to a
:class:`Measurement`; what the file does not say is a sentence in ``unknown``.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from knee.errors import FolderError
from knee.results.measured import flent, iperf3, irtt, mahimahi, tables
from knee.results.measured.series import Measurement, Unreadable
from knee.system import files

__all__ = ["FORMATS", "Measurement", "is_measurement", "read"]

FORMATS = "mahimahi, irtt JSON, LENS CSV, CSV with time and rate, iperf3 JSON, flent.gz"
#: Largest file that is read, as it is and unpacked, bytes.
_MOST = 256 << 20
#: By a key of a JSON object, what reads it.
_JSON = {"round_trips": irtt.read, "intervals": iperf3.read, "x_values": flent.read}


def is_measurement(path: Path) -> bool:
    """Whether a path is a file, and so no folder of a result."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read(path: Path, unit: str | None = None) -> Measurement:
    """The measurement in a file.

    Args:
        path: the file, which may be compressed by gzip.
        unit: of rates in CSV files whose head states none.

    Raises:
        FolderError: it is no file of a known format; says what is wrong where.
    """
    try:
        content = _unpacked(files.read(path, _MOST))
        return _read(path, content, unit)
    except Unreadable as error:
        raise FolderError(f"{path}: {error}") from None
    except RecursionError:
        raise FolderError(f"{path} nests tables too deeply; expected one of {FORMATS}.") from None
    except (OSError, ValueError, EOFError, zlib.error, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())[:200]
        raise FolderError(f"{path} cannot be read ({reason}); expected one of {FORMATS}.") from None


def _unpacked(content: bytes) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content
    import io

    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        whole = file.read(_MOST + 1)
    if len(whole) > _MOST:
        raise Unreadable(f"it has more than {_MOST >> 20} MiB when unpacked, and less is expected")
    return whole


def _read(path: Path, content: bytes, unit: str | None) -> Measurement:
    name = path.name.split(".")[0] or path.name
    if content.lstrip()[:1] == b"{":
        data: Any = json.loads(content)
        kind = next((key for key in _JSON if key in data), None)
        if kind is None:
            # iperf3 writes an error and little else where it fails.
            if isinstance(data.get("error"), str):
                raise Unreadable(f"iperf3 wrote no measurement but an error: {data['error'][:200]}")
            raise Unreadable(f"the JSON has none of {', '.join(_JSON)}; expected a file of irtt, iperf3 or flent")
        try:
            return _JSON[kind](name, data)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            problem = f"its {kind} are not as that program writes them ({type(error).__name__}: {str(error)[:100]})"
            raise Unreadable(f"{problem}; expected an unchanged file of it") from None
    text = content.decode("utf-8-sig")
    return mahimahi.read(name, text) if mahimahi.fits(text) else tables.read(name, text, unit)
