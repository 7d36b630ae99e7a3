"""Who takes part in a step: everyone, each unit by itself, or a fixed number of units."""

from tacit.spec.plan import Everyone, Poisson, WithoutReplacement

__all__ = ["Everyone", "Poisson", "WithoutReplacement"]
