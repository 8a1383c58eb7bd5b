"""Networks over words: encoders, tokenization, heads."""
