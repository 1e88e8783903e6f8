"""How the rows of a Delta table lie in its files, which changes no row.

A *bin* is a handful of small files that become one. A *cluster* is what one run has sorted along a curve through
several columns at once. `optimize` is the verb; `zorder` is the curve.
"""
