"""A release as an observation in a NumPyro model of your own. Importing it imports JAX."""

from tacit.numpyro._laws import NoisyCounts, NormalLaplace
from tacit.numpyro._observe import observe

__all__ = ["NoisyCounts", "NormalLaplace", "observe"]
