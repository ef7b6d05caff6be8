"""Metrics as pure functions over NumPy arrays; aggregation over tasks is in `benchmark.scoring`."""
