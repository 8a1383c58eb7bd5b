"""Experiments: a grid of trainings from one file, done once each, by as many workers as there are."""
