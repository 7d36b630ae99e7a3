"""Noise in whole steps, and who takes part in a step. The laws are those of `tacit.laws`."""
