"""The names of delta-spark: a notebook changes `delta.tables` to `halocline.delta.tables`, and nothing else."""
