"""The Spark session that a table is used with: settings, file systems, and plans that stay as they are."""
