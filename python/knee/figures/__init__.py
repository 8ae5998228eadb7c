"""What is computed from the rows of a run: tables, figures of flows and links, fairness, and the laws they obey."""

#: Version of the result format: of the columns of tables and the keys of ``summary.json``.
FORMAT = 1
