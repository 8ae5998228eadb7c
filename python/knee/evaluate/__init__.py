"""``knee evaluate``: a verdict on a congestion control by the criteria of RFC 9743.

``criteria.toml`` has the criteria: scenarios, figures, thresholds and their sources. ``run.py`` runs them with the
algorithm (``subject.py``) and with deployed ones in its place, on a ground (``place.py``), ``verdict.py`` judges,
``page.py`` and ``badge.py`` show the outcome, and ``compare.py`` compares two of them. ``requests.py`` says what can be
asked for, and ``plan.py`` checks it; it has ``evaluate`` for Python.
"""
