"""The page of a comparison: what differs, and how the figures and series of results differ with it."""
