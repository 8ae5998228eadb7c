"""What a run is known by, so that no study makes a run again that is there.

Runs of one identity give the same figures, bit for bit. It is a digest of all that decides on them: the scenario with
its seed, what is in the files and the source code that it names, the ground and the build of the kernel there, and the
program (:func:`knee.results.manifest.fingerprint`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from knee.errors import Refused
from knee.results.manifest import fingerprint
from knee.scenario import Scenario, traces
from knee.system import files


def identity(scenario: Scenario, ground: str, kernel: str | None) -> str:
    """The identity of a run, as ``identity`` in the manifest has it.

    Args:
        scenario: the scenario.
        ground: the name of the ground.
        kernel: the build of the kernel and modules, as of :meth:`knee.grounds.ground.Ground.build`.
    """
    return digest(content(scenario, ground), kernel)


def content(scenario: Scenario, ground: str) -> str:
    """What a run is known by but for the kernel."""
    plain = scenario.plain()
    own = {str(name): name.content for name in scenario.own}
    # Where a file is makes no difference.
    plain = traces.renamed(plain, contents(traces.named_in(plain)))
    return digest(fingerprint(), plain, ground, own)


def digest(*decides: object) -> str:
    """A digest of what decides on the figures of some runs, as far as JSON can say it."""
    text = json.dumps(decides, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=12).hexdigest()


def contents(names: Iterable[str]) -> dict[str, str]:
    """Digests of files that scenarios name: another content under the same name is another scenario."""
    found: dict[str, str] = {}
    for name in names:
        if name not in found:
            try:
                found[name] = files.digest(traces.find(name).resolve())
            except (Refused, OSError):
                # The run will say so.
                found[name] = ""
    return found
