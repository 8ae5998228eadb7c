"""The page that compares the simulator with real kernels."""
