"""What lies on disk: the log engine, Delta, Hudi and index tables. No Spark in here."""
