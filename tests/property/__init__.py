"""What holds for every input, not only for examples."""
