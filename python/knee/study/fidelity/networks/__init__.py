"""Random networks on two grounds: drawn, run on both, compared, and shrunk where they differ (``--random``)."""
