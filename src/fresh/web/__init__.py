"""Pages and JSON interfaces: what every server shares, and a server for saved models."""
