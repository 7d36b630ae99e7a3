"""Posterior draws of a hidden Markov model from a released table of counts."""
