"""Reads answers that were collected elsewhere into a study."""
