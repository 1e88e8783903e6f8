"""The command line: parses, calls the library, and hands the result to `output`.

Every command takes `--output text|json`. Exit codes: 0 fine, 1 error, 2 incompatible.
"""
