"""A sigmoid belief network: causes that nobody recorded, each of which makes levels more likely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.infer.belief_networks import BeliefNetwork, Parts, network_posterior
from tacit.models.checks import keep_numbers, names_of
from tacit.posterior.latent import BeliefNetworkPosterior
from tacit.spec.checks import set_fields, whole_number
from tacit.spec.columns import Categorical
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import FitSetting, Sums, Variational, VIPSSchedule

_ROUNDS = 8  # of a row's hidden units, always as many and always from the same public start


@dataclass(frozen=True)
class SigmoidBeliefNetwork:
    """Hidden units that are on or off, and visible ones whose log odds are their weighted sum.

    Parameters
    ----------
    n_hidden
        How many hidden units.
    visible
        `Categorical` columns of two levels; the second is "on".
    prior_scale
        About how large coefficients are: their prior standard deviation.

    Every number that a row adds lies between 0 and 1, which is what the noise is for; the weights
    of the hidden units' own odds depend on no row and have none.

    Examples
    --------
    >>> SigmoidBeliefNetwork(2, ["fever", "cough", "rash"]).n_hidden
    2
    """

    n_hidden: int
    visible: Sequence[str]
    prior_scale: float = 3.0

    def __post_init__(self) -> None:
        whole_number(self.n_hidden, "n_hidden", most=10**6)
        set_fields(self, visible=names_of(self.visible, "visible column"))
        keep_numbers(self, "prior_scale")

    def variational(self, schema: Schema, setting: FitSetting) -> Variational:
        for name in self.visible:
            column = schema[name]
            if not isinstance(column, Categorical) or len(column.levels) != 2:
                raise ModelError(
                    f'Expected {name!r} to have two levels: Categorical({name!r}, ["no", "yes"]).'
                )
        visible, size = len(self.visible), self.n_hidden + 1
        numbers = size + visible * (size + 1 + self.n_hidden * (self.n_hidden + 1) // 2)

        def start(rng: np.random.Generator) -> Sums:
            # Coefficients at random, as sums that would make them, of hidden units on half the time
            h = np.full(size, 0.5)
            h[0] = 1.0
            both = np.outer(h, h)
            both[np.arange(1, size), np.arange(1, size)] = 0.5
            odds = rng.normal(0, 1.5, (visible, size)) @ both * 0.2
            seen = np.clip(odds + h / 2, 0.05 * h, 0.95 * h)
            upper = np.triu_indices(size)
            kept = (upper[0] != upper[1]) | (upper[0] == 0)
            squares = np.tile(0.8 * both[upper][kept], visible)
            vector = setting.units * np.concatenate([h, seen.ravel(), squares])
            return Sums({"sum": vector}, {"sum": 0.0})

        def question(network: BeliefNetwork) -> BoundedSum:
            return BoundedSum(
                Kernel("belief_network.expected_statistics"),
                self.visible,
                size=numbers,
                clip=float(schema.max_rows_per_unit),
                geometry="box",
                state=(network.odds, network.mean, network.moments, np.array([_ROUNDS])),
            )

        # Many steps where noise hardly shows, a few good ones where it is large.
        noise = setting.noise * math.sqrt(numbers)
        schedule = VIPSSchedule(20) if setting.units < 3000 * noise else VIPSSchedule(60)
        if setting.units < 300 * noise:
            schedule = VIPSSchedule(8, growth=1.1)
        return Variational(start, question, self._posterior, schedule)

    def variational_posterior(
        self, release: Release, parameters: BeliefNetwork, sums: Sums, sampling: Sampling
    ) -> BeliefNetworkPosterior:
        rng, count = np.random.default_rng(sampling.seed), sampling.chains * sampling.draws
        vector, sd = sums.values["sum"], sums.sd["sum"]
        odds, coefficients = list[np.ndarray](), list[np.ndarray]()
        for some in np.array_split(np.arange(count), -(-count // 200)):
            noise = sd * rng.standard_normal((len(some), vector.size))
            noise *= sampling.noise == "aware"
            network = self._posterior(Sums({"sum": vector + noise}, sums.sd))
            odds.append(network.odds + network.odds_sd * rng.standard_normal(network.odds.shape))
            root = np.linalg.cholesky(network.covariance)
            away = rng.standard_normal(network.mean.shape)[..., None]
            coefficients.append(network.mean + (root @ away)[..., 0])
        theta = np.concatenate(coefficients)
        draws = {
            "weights": theta[..., 1:],
            "intercepts": theta[..., 0],
            "odds": np.concatenate(odds),
        }
        visible, hidden = {"visible": self.visible}, {"hidden": range(self.n_hidden)}
        labels = {"weights": visible | hidden, "intercepts": visible, "odds": hidden}
        return BeliefNetworkPosterior.of(self, release, sampling, draws, labels=labels)

    def _posterior(self, sums: Sums) -> BeliefNetwork:
        size = self.n_hidden + 1
        parts = Parts.of(sums.values["sum"], len(self.visible), size, float(sums.sd["sum"]))
        return network_posterior(parts, self.prior_scale)
