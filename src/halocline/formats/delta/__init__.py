"""Delta tables as they lie on disk: actions, log, checkpoints, snapshots, deletion vectors. No Spark in here."""
