"""The transaction-log engine that Delta tables and index tables share: file names, versions, segments, commits."""
