"""The public vocabulary: frozen values and small protocols; no data, no I/O, no randomness."""
