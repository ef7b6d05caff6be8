"""Metrics as pure functions over NumPy arrays; means over tasks and intervals are in `benchmark.aggregation`."""
