"""The audit of a model: does the wall hold, and what leaks past it."""
