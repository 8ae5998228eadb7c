"""The packets that the probe captured, as a pcapng file (draft-ietf-opsawg-pcapng), like that of other grounds.

Each flow is an interface, named by its label. Times are those of the run, in nanoseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from knee.errors import RunError
from knee.grounds.uml.probe import Array

#: Types of blocks: section header, interface description, enhanced packet.
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER = 0x1A2B3C4D
#: Packets begin with the IP header (LINKTYPE_RAW).
_RAW = 101
#: Options of an interface: its name, and the resolution of times as a power of ten.
_NAME, _RESOLUTION = 2, 9
#: Bytes kept of each packet.
SNAPLEN = 128


def write(file: Path, labels: Sequence[str], packets: Array) -> None:
    """Writes packets, in order, to a file.

    Args:
        file: the file.
        labels: the flows' names.
        packets: rows of the probe (:data:`knee.grounds.uml.probe.PACKETS`).

    Raises:
        RunError: it cannot be written.
    """
    try:
        with file.open("wb") as out:
            out.write(_block(_SECTION, struct.pack("=IHHq", _BYTE_ORDER, 1, 0, -1)))
            for label in labels:
                options = _option(_NAME, label.encode()) + _option(_RESOLUTION, bytes([9])) + _option(0, b"")
                out.write(_block(_INTERFACE, struct.pack("=HHI", _RAW, 0, SNAPLEN) + options))
            for packet in packets:
                at, kept = int(packet["at_ns"]), int(packet["captured"])
                head = struct.pack("=IIIII", packet["index"], at >> 32, at & 0xFFFFFFFF, kept, packet["size"])
                out.write(_block(_PACKET, head + _padded(packet["bytes"][:kept].tobytes())))
    except OSError as error:
        raise RunError(f"The packets cannot be written ({error.strerror}).") from None


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("=HH", code, len(value)) + _padded(value)


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("=I", 12 + len(body))
    return struct.pack("=I", kind) + size + body + size
