"""Models side by side: what is measured of each, and whether they differ."""
