"""Ways to train, each in a file: a config and what makes a model from splits and that config."""
