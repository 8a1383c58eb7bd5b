"""The training loop, and what makes it fast."""
