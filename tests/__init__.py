"""Tests, and under `support` the parts that more than one room of them needs."""
