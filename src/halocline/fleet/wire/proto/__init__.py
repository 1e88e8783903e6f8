"""The wire protocol of a fleet: its definition, and the Python code generated from it.

`v1/fleet.proto` is the source. `python -m tests.support.wire_generator` makes the rest, with the oldest generator
that is supported, because generated code runs on the runtime of its generator and newer ones only.
"""
