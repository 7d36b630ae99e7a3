"""Posterior draws of a hidden Markov model from a released table of counts."""

from tacit.infer.hmm.gibbs import HiddenDraws
from tacit.infer.hmm.run import Cells, Priors, draw_hidden_states, relabelled

__all__ = ["Cells", "HiddenDraws", "Priors", "draw_hidden_states", "relabelled"]
