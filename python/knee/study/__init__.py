"""Many runs: sweeps, searches, matrices, batches, and the comparison of the simulator with real kernels."""
