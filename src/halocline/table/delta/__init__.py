"""What can be done to a Delta table, verb by verb, each in a module of its name."""
