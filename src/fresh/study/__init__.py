"""A study with people: who reads which rationale, what they answer, and what follows from it."""
