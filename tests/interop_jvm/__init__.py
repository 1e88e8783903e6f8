"""Hudi tables between Apache Hudi's own Spark bundle and us. Run with `make interop-jvm`; no part of `make test`."""
