"""Probabilities of levels: of some of them together with a Beta prior, or of each, Dirichlet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from scipy.linalg import helmert
from scipy.special import expit, gammaln, log_softmax, polygamma, softmax

from tacit.infer.categorical import draw_probabilities
from tacit.infer.from_draw import check_usable
from tacit.models.checks import check_answers, concentration, positive
from tacit.posterior import Posterior
from tacit.spec.checks import set_fields
from tacit.spec.columns import Label
from tacit.spec.draws import ConjugateDraw, TruncatedDirichlet
from tacit.spec.errors import ModelError
from tacit.spec.kernels import Kernel
from tacit.spec.keys import Is, Key, first_number, labels_of
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema
from tacit.spec.walks import Walk


@dataclass(frozen=True)
class BetaBernoulli:
    """How often `column` is `success`, among the rows that have a value.

    Parameters
    ----------
    column
        A countable column of the schema.
    success
        The level, or levels, that count as success.
    prior
        The Beta prior's (a, b): as if a successes and b failures had been seen before.

    Examples
    --------
    >>> BetaBernoulli("smoker", success="yes").query()
    Counts(columns=(Is(column='smoker', levels=('yes',)),), by=())
    """

    column: str
    success: Label | Sequence[Label] = None
    prior: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        if self.success is None:
            raise ModelError(
                f"Expected the level that counts as success: "
                f'BetaBernoulli({self.column!r}, success="yes").'
            )
        set_fields(self, prior=positive(self.prior, 2, "prior=(a, b)"))

    def query(self) -> Counts:
        return Counts((self._key(),))

    def check(self, schema: Schema, **_: Any) -> None:
        """Refuse a schema that the posterior could not use, before anything is paid."""
        labels_of(self._key(), schema)  # refuses unknown levels
        if set(labels_of(self.column, schema)) <= set(self._key().levels):
            raise ModelError(f"Expected a level of {self.column!r} that is not a success.")

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        key = self._key()
        return conjugate_draw(schema, key, self.prior[::-1], truncation, draws, temper_prior)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of the success probability `p` given its counts with noise, or a draw."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        success = self._success(release)
        successes, failures = self.prior
        # The Beta prior of levels taken together is the sum of a Dirichlet prior's parts.
        prior = np.where(success, successes / success.sum(), failures / (~success).sum())
        levels, rows, rng = draw_probabilities(release, self.column, prior, how)
        p = levels[:, success].sum(axis=1)
        return Posterior.of(
            self,
            release,
            how,
            {"p": p, "rows": rows},
            predicted={self.column: rng.random(len(p)) < p},
        )

    def walk(self, schema: Schema) -> Walk:
        """Return the model on the scale of log p / (1 - p): a row's gradient is below 1."""
        labels_of(self._key(), schema)
        success = np.array([x in self._key().levels for x in labels_of(self.column, schema)])
        a, b = self.prior

        def log_likelihoods(at: np.ndarray) -> np.ndarray:
            return success[:, None] * at[:, 0] - np.logaddexp(0.0, at[:, 0])

        return Walk(
            columns=(self.column,),
            combinations=_tables(log_likelihoods, first_number(self.column, schema)),
            log_likelihoods=log_likelihoods,
            max_gradient=1.0,
            curvature=0.25,
            start=np.array([np.log(a / b)]),
            scale=float(np.sqrt(polygamma(1, a) + polygamma(1, b))),
            log_prior=lambda at: a * at[..., 0] - (a + b) * np.logaddexp(0.0, at[..., 0]),
            draw_prior=lambda rng, count: -np.diff(_log_gamma(rng, self.prior, count), axis=1),
        )

    def walk_posterior(self, release: Release, at: np.ndarray) -> Posterior:
        return Posterior.of(self, release, Sampling(len(at), 1), {"p": expit(at[:, 0])})

    def _key(self) -> Is:
        levels = self.success if isinstance(self.success, (tuple, list)) else (self.success,)
        return Is(self.column, tuple(levels))

    def _success(self, release: Release) -> np.ndarray:
        """Which cells of the release are successes: one of two, or some of all levels."""
        key = self._key()
        labels_of(key, release.schema)  # refuses unknown levels
        if not isinstance(release.query, Counts) or release.query == self.query():
            return np.array([False, True])
        success = np.array(
            [label in key.levels for label in labels_of(self.column, release.schema)]
        )
        if success.all():
            raise ModelError(f"Expected a level of {self.column!r} that is not a success.")
        return success

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `p`."""
        from scipy.stats import beta

        return beta.logpdf(draws["p"], *self.prior)


@dataclass(frozen=True)
class DirichletCategorical:
    """How often `column` takes each of its levels, among the rows that have a value.

    Parameters
    ----------
    column
        A countable column of the schema.
    prior
        The Dirichlet prior's concentration: one number for all levels, one for each in order, or
        a mapping from level to number.
    """

    column: str
    prior: float | Sequence[float] | Mapping[Label, float] = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.prior, Mapping):
            positive(tuple(self.prior.values()), len(self.prior), "prior")
        elif isinstance(self.prior, Sequence):
            set_fields(self, prior=positive(self.prior, len(self.prior), "prior"))
        else:
            concentration(self, "prior")

    def query(self) -> Counts:
        return Counts((self.column,))

    def check(self, schema: Schema, **_: Any) -> None:
        """Refuse a schema that the prior does not suit, before anything is paid."""
        self._concentration(labels_of(self.column, schema))

    def draw_query(
        self, schema: Schema, *, truncation: Any, draws: int, temper_prior: bool
    ) -> ConjugateDraw:
        prior = self._concentration(labels_of(self.column, schema))
        return conjugate_draw(schema, self.column, prior, truncation, draws, temper_prior)

    def posterior(self, release: Release, **sampling: Unpack[SamplingOptions]) -> Posterior:
        """The posterior of the probabilities `p` given its counts with noise, or draws."""
        how = Sampling.of(sampling)
        check_answers(release, self.query())
        levels = labels_of(self.column, release.schema)
        prior = self._concentration(levels)
        p, rows, rng = draw_probabilities(release, self.column, prior, how)
        chosen = (np.cumsum(p, axis=1) < rng.random((len(p), 1))).sum(axis=1)
        return Posterior.of(
            self,
            release,
            how,
            {"p": p, "rows": rows},
            labels=self._labels(release.schema),
            predicted={self.column: np.minimum(chosen, len(levels) - 1)},
        )

    def walk(self, schema: Schema) -> Walk:
        """Return the model on the scale of log p less its mean over levels, turned to K - 1 axes.

        A row of level j has the gradient of e_j - p, whose length is below the root of 2.
        """
        levels = labels_of(self.column, schema)
        if len(levels) < 2:
            raise ModelError(f"Expected a column of several levels, not {self.column!r}.")
        prior, basis = self._concentration(levels), _balances(len(levels))

        def log_p(at: np.ndarray) -> np.ndarray:
            return log_softmax(at @ basis.T, axis=-1)

        def log_likelihoods(at: np.ndarray) -> np.ndarray:
            return log_p(at).T

        return Walk(
            columns=(self.column,),
            combinations=_tables(log_likelihoods, first_number(self.column, schema)),
            log_likelihoods=log_likelihoods,
            max_gradient=2**0.5,
            curvature=1 / len(levels),
            start=np.log(prior) @ basis,
            scale=float(np.sqrt(polygamma(1, prior).mean())),
            log_prior=lambda at: log_p(at) @ prior,
            draw_prior=lambda rng, count: _log_gamma(rng, prior, count) @ basis,
        )

    def walk_posterior(self, release: Release, at: np.ndarray) -> Posterior:
        labels = self._labels(release.schema)
        p = softmax(at @ _balances(len(labels["p"][self.column])).T, axis=-1)
        return Posterior.of(self, release, Sampling(len(at), 1), {"p": p}, labels=labels)

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of `p`."""
        prior = self._concentration(labels_of(self.column, release.schema))
        inside = np.maximum(draws["p"], 1e-300)
        constant = gammaln(prior.sum()) - gammaln(prior).sum()
        return constant + (np.log(inside) * (prior - 1)).sum(axis=-1)

    def _labels(self, schema: Schema) -> dict[str, Any]:
        return {"p": {self.column: labels_of(self.column, schema)}}

    def _concentration(self, levels: tuple[Label, ...]) -> np.ndarray:
        match self.prior:
            case Mapping() as prior:
                # Keys of TOML and JSON are texts: "1" for the level 1, "true" for True.
                texts = {str(level).lower() if isinstance(level, bool) else str(level): level
                         for level in levels}  # fmt: skip
                given = {texts.get(key, key) if isinstance(key, str) else key: value
                         for key, value in prior.items()}  # fmt: skip
                if set(given) != set(levels) or len(given) < len(prior):
                    raise ModelError(
                        f"Expected prior to name each level of {self.column!r} once: "
                        f"{_shown(levels)}."
                    )
                return np.array([given[level] for level in levels], dtype=float)
            case tuple() as prior:
                if len(prior) != len(levels):
                    raise ModelError(
                        f"Expected {len(levels)} numbers in prior, one for each level of "
                        f"{self.column!r} ({_shown(levels)}), got {len(prior)}."
                    )
                return np.array(prior)
            case prior:
                return np.full(len(levels), prior)


def _shown(levels: tuple[Label, ...]) -> str:
    return ", ".join(map(repr, levels[:8])) + ", ..." * (len(levels) > 8)


def conjugate_draw(
    schema: Schema,
    key: Key,
    prior: Iterable[float],
    truncation: Any,
    draws: int,
    temper_prior: bool,
) -> ConjugateDraw:
    """Return the query for draws of the levels' probabilities."""
    check_usable(schema)
    if truncation is None:
        raise ModelError(
            "Expected OnePosteriorSample(..., truncation=0.05), or another smallest probability "
            "that a draw can have: it bounds what one row can do and has no default."
        )
    law = TruncatedDirichlet(key, tuple(float(a) for a in prior), truncation)
    return ConjugateDraw(law, draws, temper_prior)


def _tables(log_likelihoods: Callable[[np.ndarray], np.ndarray], first: int) -> Any:
    """Return `Walk.combinations` of a model of levels: a table of numbers by level."""

    def combinations(
        points: np.ndarray, coefficients: np.ndarray, constants: Any = 0.0, *, lifted: bool = False
    ) -> tuple[Kernel, Any]:
        table = coefficients @ log_likelihoods(points).T + np.reshape(constants, (-1, 1))
        if lifted:
            table = table - table.min(axis=0)
        return Kernel("table.scores"), (np.ascontiguousarray(table), np.array([first]))

    return combinations


def _balances(levels: int) -> np.ndarray:
    """Return orthonormal axes (level, axis) of logarithms that sum to zero."""
    return helmert(levels).T


def _log_gamma(rng: np.random.Generator, shapes: Sequence[float], count: int) -> np.ndarray:
    """Logarithms of Gamma variables, also where the variables themselves underflow."""
    shape = np.asarray(shapes, float)
    boost = np.log1p(-rng.random((count, len(shape)))) / shape
    return np.log(rng.standard_gamma(shape + 1, (count, len(shape)))) + boost
