"""Tables as a Spark data source, `format("halocline")`: batch and stream, read and written."""
