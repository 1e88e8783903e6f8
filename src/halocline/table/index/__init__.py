"""Index tables in the user's hands: one module per verb."""
