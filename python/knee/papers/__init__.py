"""``knee reproduce``: reruns the figures and tables of papers and compares them with the published ones.

A paper consists of three parts with a common key:

- ``recipes/<key>.py`` with ``PAPER``, a :class:`Paper`: its experiments, each with its runs, a function that computes
  named quantities from results, and functions that draw its figures. Its own scenarios are in
  ``scenarios/papers/<key>/``; small variations are overrides of a :class:`Run`, larger ones plain data.
- ``items/<key>.toml`` with the text of the paper and of its experiments, and the published numbers and claims:
  ``[[item]]`` for those that get a verdict, ``[[finding]]``
  for results where the paper leaves a question open. Each names the computed quantity to compare with, how to compare,
  the tolerance and its reason; ``items.py`` has the keys.
- its key in ``NAMES`` of ``recipes/__init__.py``.

The smallest experiment::

    def _measure(results: Results) -> dict[str, Value]:
        return {"goodput_mbps": results["pair"].summary["flows"][0]["goodput_mbps"]}

    Experiment(
        key="pair",
        runs=[Run("pair", "interactions-pair", ["flows.0.cc=cubic"], seeds=5, quick=["duration=20 s"])],
        measure=_measure,
    )

and its text and item::

    [experiment.pair]
    title = "Table I: two CUBIC flows"
    about = "Two flows share 100 Mbit/s."

    [[item]]
    key = "cubic-goodput"
    experiment = "pair"
    id = "I1"
    where = "Table I"
    says = "a goodput of 44.98 Mbit/s"
    computed = "goodput_mbps"
    compare = "within"
    value = 44.98
    unit = "Mbit/s"
    tolerance = "5 %"
    reason = "the spread of the paper's own pairs of equal flows"

See ``docs/reproduce.md``.
"""
