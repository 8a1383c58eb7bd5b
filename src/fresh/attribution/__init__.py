"""The support model, and one file for each way to score words by it."""
