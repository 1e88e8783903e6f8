"""Upkeep of Delta tables without Spark: delete files that no version needs, go back, find and mend wrong protocols."""
