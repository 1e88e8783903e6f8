"""A Delta table at one version, behind the check of its protocol, and everything that can be told from there.

A *snapshot* exists only for a release that may do what it was loaded for. History, detail, the change feed and the
inspection of tables that may not be read stand beside it.
"""
