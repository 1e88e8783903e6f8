"""How a Delta table gains a feature, how it shows that it uses one, and how it loses one again."""
