"""The tables of a fleet's store, as this release reads and writes them.

`records` holds the durable truth, one row for each record of a `Fleet`: small, read as a whole when a coordinator takes
over, and written a few rows at a time. `incarnations` has the records of that kind, of which only the newest are read.
`coordinator` is a single row that says who may write. `audit`, `refusals` and `sightings` grow and are queried. The
migrations create these tables; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text

metadata = MetaData()

store_version = Table(
    "store_version",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("minimum", Integer, nullable=False),
    Column("written_by", String(100), nullable=False),
)
"""Which migration the store is at, the least that a release must know to use it, and who brought it there."""

coordinator = Table(
    "coordinator",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("holder", String(200), nullable=False),
    Column("address", String(300), nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
)
"""Who coordinates, under which epoch, and until when by the database's clock."""

records = Table(
    "records",
    metadata,
    Column("kind", String(40), primary_key=True),
    Column("key", String(700), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("body", Text, nullable=False),
)

incarnations = Table(
    "incarnations",
    metadata,
    Column("identity", String(128), primary_key=True),
    Column("incarnation", BigInteger, nullable=False),
    Index("incarnations_newest", "incarnation"),
)

# SQLite numbers rows by itself only in a column that is exactly INTEGER.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")

audit = Table(
    "audit",
    metadata,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("actor", String(200), nullable=False),
    Column("action", String(40), nullable=False),
    Column("subject", String(1000), nullable=False),
    Column("detail", Text, nullable=False),
    Column("refused", String(60), nullable=False),
    Column("hash", String(64), nullable=False, server_default=""),
    Index("audit_at", "at_ms"),
)

refusals = Table(
    "refusals",
    metadata,
    Column("actor", String(200), primary_key=True),
    Column("action", String(40), primary_key=True),
    Column("refused", String(60), primary_key=True),
    Column("subject", String(1000), nullable=False),
    Column("detail", Text, nullable=False),
    Column("first_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False),
    Column("times", BigInteger, nullable=False),
    Index("refusals_last", "last_ms"),
)

sightings = Table(
    "sightings",
    metadata,
    Column("identity", String(128), primary_key=True),
    Column("client", String(200), primary_key=True),
    Column("release", String(200), primary_key=True),
    Column("role", String(64), primary_key=True),
    Column("outcome", String(60), primary_key=True),
    Column("requires", Text, nullable=False),
    Column("first_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False),
    Column("times", BigInteger, nullable=False),
    Index("sightings_last", "last_ms"),
)

signing_keys = Table(
    "signing_keys",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("secret", LargeBinary, nullable=False),
    Column("made_ms", BigInteger, nullable=False),
)
