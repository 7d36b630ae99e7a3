"""Latent classes: levels that are independent of one another given a class nobody recorded.

All of a model for VIPS is in this file: its query, its variational parameters given sums, and
draws. What a row adds is the kernel "latent_classes.responsibilities".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma

from tacit.infer.denoise import class_sums
from tacit.models.checks import features_of, keep_numbers, names_of
from tacit.models.latent_gibbs import LatentBlocks, latent_note, matched
from tacit.posterior.latent import MixturePosterior
from tacit.spec.checks import set_fields, whole_number
from tacit.spec.columns import Categorical
from tacit.spec.gibbs import Values
from tacit.spec.kernels import Kernel
from tacit.spec.latent_tables import WEIGHTS
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import FitSetting, Sums, Variational, VIPSSchedule


class _Dirichlets(NamedTuple):
    """Concentrations of the classes (..., class) and of the levels (..., class, level)."""

    classes: np.ndarray
    levels: np.ndarray


@dataclass(frozen=True)
class NaiveBayesMixture:
    """Rows of several classes that nobody recorded, with independent features in each class.

    Parameters
    ----------
    n_components
        How many classes.
    features
        `Categorical` columns.
    prior
        The concentration of the Dirichlet prior of the classes, and of each feature in each class.

    Examples
    --------
    >>> NaiveBayesMixture(2, ["fever", "cough"]).n_components
    2
    """

    n_components: int
    features: Sequence[str]
    prior: float = 1.0

    def __post_init__(self) -> None:
        whole_number(self.n_components, "n_components", most=10**6)
        set_fields(self, features=names_of(self.features, "feature"))
        keep_numbers(self, "prior")

    def variational(self, schema: Schema, setting: FitSetting) -> Variational:
        counts = [len(column.levels) for column in features_of(schema, self.features, Categorical)]
        first = np.cumsum([0, *counts[:-1]])
        shape = self.n_components, sum(counts)
        # A row adds its shares, of norm 1 at most, once for each feature, and all are bounded as
        # one vector: the number of classes costs nothing.
        clip = math.sqrt(len(counts)) * (1 + 1e-12) * schema.max_rows_per_unit

        def start(rng: np.random.Generator) -> Sums:
            rows = setting.units / self.n_components / np.repeat(counts, counts)
            return Sums({"sum": rows * rng.gamma(2.0, 0.5, shape)}, {"sum": 0.0})

        def question(parameters: _Dirichlets) -> BoundedSum:
            totals = digamma(np.add.reduceat(parameters.levels, first, axis=1))
            tables = digamma(parameters.levels) - np.repeat(totals, counts, axis=1)
            return BoundedSum(
                Kernel("latent_classes.responsibilities"),
                tuple(self.features),
                size=shape,
                clip=clip,
                geometry="nonnegative",
                state=(digamma(parameters.classes), tables, first),
            )

        # Averages over steps: many are needed, and each has noise.
        schedule = VIPSSchedule(40, kappa=0.4) if setting.noise else VIPSSchedule(100)
        return Variational(start, question, lambda sums: self._posterior(sums, first), schedule)

    def variational_posterior(
        self, release: Release, parameters: _Dirichlets, sums: Sums, sampling: Sampling
    ) -> MixturePosterior:
        rng, count = np.random.default_rng(sampling.seed), sampling.chains * sampling.draws
        columns = features_of(release.schema, self.features, Categorical)
        first = np.cumsum([0, *(len(column.levels) for column in columns)])
        n = release.n if release.schema.max_rows_per_unit == 1 else None
        noise = rng.standard_normal((count, *parameters.levels.shape))
        noise *= sampling.noise == "aware"
        each = self._posterior(sums, first[:-1], n, noise)
        order = np.argsort(-parameters.classes, kind="stable")
        draws = {"weights": _dirichlet(each.classes[:, order], rng)}
        component = {"component": range(self.n_components)}
        labels: dict[str, Any] = {"weights": component}
        for column, a, b in zip(columns, first[:-1], first[1:], strict=True):
            draws[f"p({column.name})"] = _dirichlet(each.levels[:, order, a:b], rng)
            labels[f"p({column.name})"] = component | {column.name: column.levels}
        return MixturePosterior.of(self, release, sampling, draws, labels=labels)

    gibbs_notes = (latent_note("classes of rows"),)

    def gibbs(self, schema: Schema, *, truncation: Any) -> LatentBlocks:
        """Return the blocks of a Gibbs sampler through the wall: weights, and each feature."""
        columns = features_of(schema, self.features, Categorical)
        levels = {column.name: len(column.levels) for column in columns}
        return LatentBlocks(levels, self.n_components, self.prior, truncation)

    def gibbs_posterior(self, release: Release, kept: Sequence[Values]) -> MixturePosterior:
        """Return the plug-in posterior of what a Gibbs sampler drew, with its diagnosis."""
        found = matched(kept, self.features)
        order = np.argsort(-found[WEIGHTS].mean(axis=0), kind="stable")
        component = {"component": range(self.n_components)}
        draws = {"weights": found[WEIGHTS][:, order]}
        labels: dict[str, Any] = {"weights": component}
        for name in self.features:
            draws[f"p({name})"] = found[name][:, order]
            labels[f"p({name})"] = component | {name: release.schema[name].labels}
        return MixturePosterior.from_draws(self, release, draws, labels).diagnosed()

    def _posterior(self, sums: Sums, first: np.ndarray, *draws: Any) -> _Dirichlets:
        rows, cells = class_sums(sums.values["sum"], float(sums.sd["sum"]), first, *draws)
        return _Dirichlets(self.prior + rows, self.prior + cells)


def _dirichlet(concentration: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    draws = rng.standard_gamma(concentration) + 1e-300
    return draws / draws.sum(axis=-1, keepdims=True)
