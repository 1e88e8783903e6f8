"""The log of an index table: what its commits, checkpoints and states say.

A *commit* is one version: JSON lines, one action each, plain or compressed. A *checkpoint* is all that counts at a
version, as JSON lines in one file or in parts that the file names. A *state* is the same as IndexTables4Spark writes it
from 0.4.5 on: an Avro record that names shared *manifests* of splits, and *tombstones* for those of them that are gone.

Promises: every commit between the base and the version is read, or the version is refused; the newest protocol and
metadata count; unknown actions and unknown fields are passed over; protocol and metadata are read before any split is,
so that a table of a newer protocol is refused by name and not as damage.

The limit: an Avro state holds its protocol as one number. What the commits that are still there say is added to it.
"""
