"""Keeps lakehouse tables and the programs that use them compatible while both evolve."""

__version__ = "0.1.0"
