"""Serves saved models in the browser and over JSON."""
