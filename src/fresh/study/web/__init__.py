"""The pages of a study: for those who answer, and for whoever runs it."""
