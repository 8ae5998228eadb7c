"""Figures of what people notice: completion times, calls, video, and latency under load.

Each module turns rows of a run into keys of ``summary.json``: :mod:`completions`, :mod:`calls`, :mod:`responsiveness`
and :mod:`latency`; :mod:`alone` knows how long a transfer takes on an empty path, and :mod:`histogram` has quantiles
of counted times.
"""
