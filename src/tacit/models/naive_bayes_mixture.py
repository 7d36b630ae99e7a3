"""Latent classes: levels that are independent of one another given a class nobody recorded.

All of a model for VIPS is in this file: what is asked, what is believed given sums, and draws. What
a row adds is the kernel "latent_classes.responsibilities".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma

from tacit.infer.denoise import class_sums
from tacit.models.description import describe, names_of, number, whole
from tacit.posterior.mixture import MixturePosterior
from tacit.spec.columns import Categorical
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.schema import Schema
from tacit.spec.sums import BoundedSum
from tacit.spec.variational import Setting, Sums, Variational, VIPSSchedule


class _Believed(NamedTuple):
    """Dirichlets of the classes (..., class) and of levels (..., class, level); and their sums."""

    classes: np.ndarray
    levels: np.ndarray
    sums: Sums


@dataclass(frozen=True)
class NaiveBayesMixture:
    """Rows of several classes that nobody recorded, with independent features in each class.

    Parameters
    ----------
    components
        How many classes.
    features
        `Categorical` columns.
    prior
        The concentration of the Dirichlet prior of the classes, and of each feature in each class.

    Examples
    --------
    >>> NaiveBayesMixture(2, ["fever", "cough"]).components
    2
    """

    components: int
    features: Sequence[str]
    prior: float = 1.0

    def __post_init__(self) -> None:
        whole(self.components, "components", 1)
        object.__setattr__(self, "features", names_of(self.features, "feature"))
        object.__setattr__(self, "prior", number(self.prior, "prior", above=0))

    def variational(self, schema: Schema, setting: Setting) -> Variational:
        counts = [len(column.levels) for column in self._columns(schema)]
        first = np.cumsum([0, *counts[:-1]])
        shape = self.components, sum(counts)
        # A row adds its shares, of norm 1 at most, once for each feature, and all are bounded as
        # one vector: the number of classes costs nothing.
        clip = math.sqrt(len(counts)) * (1 + 1e-12) * schema.max_rows_per_unit

        def start(rng: np.random.Generator) -> Sums:
            rows = setting.units / self.components / np.repeat(counts, counts)
            return Sums({"sum": rows * rng.gamma(2.0, 0.5, shape)}, {"sum": 0.0})

        def question(believed: _Believed) -> BoundedSum:
            whole = np.add.reduceat(believed.levels, first, axis=1)
            tables = digamma(believed.levels) - np.repeat(digamma(whole), counts, axis=1)
            state = (digamma(believed.classes), tables, first)
            names = tuple(self.features)
            return BoundedSum(
                Kernel("latent_classes.responsibilities"),
                names,
                size=shape,
                clip=clip,
                geometry="nonnegative",
                state=state,
            )

        def maximise(sums: Sums) -> _Believed:
            return self._believed(sums, first)

        # Averages over steps: many are needed, and each has noise.
        schedule = VIPSSchedule(40, kappa=0.4) if setting.noise else VIPSSchedule(100)
        return Variational(start, question, maximise, schedule)

    def variational_posterior(
        self, release: Release, parameters: _Believed, sampling: Sampling
    ) -> MixturePosterior:
        rng, count = np.random.default_rng(sampling.seed), sampling.chains * sampling.draws
        columns = self._columns(release.schema)
        first = np.cumsum([0, *(len(column.levels) for column in columns)])
        n = release.n if release.schema.max_rows_per_unit == 1 else None
        noise = rng.standard_normal((count, *parameters.levels.shape))
        noise *= sampling.noise == "aware"
        each = self._believed(parameters.sums, first[:-1], n, noise)
        order = np.argsort(-parameters.classes, kind="stable")
        draws = {"weights": _dirichlet(each.classes[:, order], rng)}
        for column, a, b in zip(columns, first[:-1], first[1:], strict=True):
            draws[f"p({column.name})"] = _dirichlet(each.levels[:, order, a:b], rng)
        dims = {f"p({c.name})": ("component", c.name) for c in columns}
        coords = {"component": tuple(range(self.components))}
        return MixturePosterior.of(
            describe(self),
            release,
            sampling,
            draws,
            dims={"weights": ("component",), **dims},
            coords=coords | {column.name: column.levels for column in columns},
        )

    def _believed(self, sums: Sums, first: np.ndarray, *draws: Any) -> _Believed:
        rows, cells = class_sums(sums.values["sum"], float(sums.sd["sum"]), first, *draws)
        return _Believed(self.prior + rows, self.prior + cells, sums)

    def _columns(self, schema: Schema) -> list[Categorical]:
        columns = [schema[name] for name in self.features]
        for column in columns:
            if not isinstance(column, Categorical):
                raise ModelError(f"Expected feature {column.name!r} to be Categorical.")
        return columns  # type: ignore[return-value]


def _dirichlet(concentration: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    draws = rng.standard_gamma(concentration) + 1e-300
    return draws / draws.sum(axis=-1, keepdims=True)
