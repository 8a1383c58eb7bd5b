"""Ways to train, one file each: all return a Rationalizer."""
