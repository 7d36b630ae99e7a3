"""The posterior given a release: draws, the release, and its certificate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import ndtri

from tacit.posterior.inference_data import (
    free_name,
    mixing,
    read_groups,
    to_groups,
    write_groups,
)
from tacit.posterior.intervals import Interval, ends_of, spread_known, summary_columns, tails
from tacit.posterior.table import Table
from tacit.spec.budget import plain
from tacit.spec.certificate import Certificate
from tacit.spec.errors import FileError, ModelError
from tacit.spec.html import facts_html, table_html
from tacit.spec.missing import Rows, most_rows, rows_of, warnings_of
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.wire import from_json, to_json

if TYPE_CHECKING:
    import pandas as pd

_TYPES: dict[str, type[Posterior]] = {}  # subclasses by name, for `load`
_COUNTED = "rows_counted"  # a constant: about how many rows, and the noise's standard deviation
_FEWEST = 8  # draws of a chain: ArviZ needs four of each half
_LEAST_ESS, _LARGEST_R_HAT = 100, 1.05  # below and above which a chain has not mixed


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of each variable, shaped (chain, draw, ...), the main variable first.

    Nothing in it comes from the raw data except through its releases. `warnings` are sentences that
    say why its intervals may be wrong; its certificate has them too. `chained` is whether draws are
    the states of a chain, one after another.

    Where rows that you already have can be predicted for, names mean what they do in scikit-learn:
    `predict` gives each row's most probable class, or the posterior mean of its target;
    `predict_proba` the probability of each of `classes`; and `predict_interval` an interval of
    these probabilities, or of the target where there are no classes. Elsewhere they raise
    ModelError.
    """

    draws: Mapping[str, np.ndarray]
    dims: Mapping[str, tuple[str, ...]]
    coords: Mapping[str, tuple[Any, ...]]
    model: Mapping[str, Any]
    releases: tuple[Release, ...]
    noise: str
    predicted: Mapping[str, np.ndarray] = field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    chained: bool = False

    def __init_subclass__(cls) -> None:
        _TYPES[cls.__name__] = cls

    @classmethod
    def of(
        cls,
        model: Any,
        release: Release,
        sampling: Sampling,
        draws: Mapping[str, np.ndarray],
        *,
        labels: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
        predicted: Mapping[str, np.ndarray] | None = None,
    ) -> Self:
        """Return a model's posterior given draws along one axis, reshaped to (chain, draw, ...).

        `labels` has the further dimensions of a variable, each with its labels. `rows`, the number
        of rows, is dropped where it is constant, hence known.
        """
        chains = sampling.chains, sampling.draws
        kept = {k: v for k, v in draws.items() if k != "rows" or np.ptp(v) > 0}

        def shaped(flat: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(np.reshape(flat, (*chains, *np.shape(flat)[1:])))

        made = cls(
            draws={name: shaped(flat) for name, flat in kept.items()},
            dims={name: tuple((labels or {}).get(name, ())) for name in kept},
            coords={d: tuple(v) for each in (labels or {}).values() for d, v in each.items()},
            model=describe(model),
            releases=(release,),
            noise=sampling.noise,
            predicted={name: shaped(flat) for name, flat in (predicted or {}).items()},
        )
        return made.coded()

    @classmethod
    def from_draws(
        cls,
        model: Any,
        release: Release,
        draws: Mapping[str, np.ndarray],
        labels: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    ) -> Self:
        """Return released draws, or public states of a chain, as posterior draws.

        They are draws of a tempered posterior, without a correction for noise.
        """
        count = len(next(iter(draws.values())))
        made = cls.of(model, release, Sampling(draws=count, chains=1), draws, labels=labels)
        return replace(made, noise="tempered")

    def coded(self) -> Self:
        """Return the posterior with what its release says of rows without a value.

        A warning where there are many; on the certificate, which columns have a default.
        """
        *rest, last = self.releases
        notes = tuple(str(each) for each in last.missing() if each.replaced)
        noted = replace(last, certificate=last.certificate.assuming(notes))
        return replace(self, releases=(*rest, noted)).warned(warnings_of(last))

    def counting(self, rows: Rows) -> Self:
        """Return the posterior with about how many rows its method counted on the way."""
        counted = np.array([rows.estimate, rows.sd])
        return replace(self, constants={**self.constants, _COUNTED: counted})

    @property
    def rows(self) -> Rows | None:
        """About how many rows have a value, by what was released; None if it was not measured."""
        (release,) = self.releases
        found = rows_of(release)
        if found is None and _COUNTED in self.constants:
            found = Rows(*map(float, self.constants[_COUNTED]))
        most = most_rows(release)
        return None if found is None else replace(found, estimate=min(found.estimate, most))

    def warned(self, warnings: tuple[str, ...]) -> Self:
        """Return the posterior with doubts about it, which its certificate has too."""
        if not warnings:
            return self
        *rest, last = self.releases
        noted = last.certificate.assuming(tuple(f"warning: {text}" for text in warnings))
        releases = (*rest, replace(last, certificate=noted))
        return replace(self, releases=releases, warnings=self.warnings + warnings)

    def diagnosed(self) -> Self:
        """Return the draws of a chain, with a warning if they say little about what it is to reach.

        That is where an effective sample size is below 100, or an R-hat of split halves above 1.05.
        """
        count = next(iter(self.draws.values())).shape[1]
        if count < _FEWEST:
            text = f"{count} draws of a chain say little: intervals mean nothing"
            return replace(self, chained=True).warned((text,))
        found = [mixing(draws) for draws in self.draws.values()]
        ess = min(float(np.nanmin(part["ess"], initial=np.inf)) for part in found)
        r_hat = max(float(np.nanmax(part["r_hat"], initial=0.0)) for part in found)
        made = replace(self, chained=True)
        if ess >= _LEAST_ESS and r_hat <= _LARGEST_R_HAT:
            return made
        return made.warned((
            f"the chain has not mixed: effective sample size {ess:.0f} and R-hat {r_hat:.2f} at "
            f"worst, where {_LEAST_ESS} and {_LARGEST_R_HAT} would do; intervals may be too narrow "
            "and in the wrong place",
        ))  # fmt: skip

    @property
    def certificate(self) -> Certificate:
        """The certificate of the release: query, data, privacy cost and assumptions."""
        (release,) = self.releases
        return release.certificate

    def sample(self, n: int, variable: str | None = None) -> np.ndarray:
        """Return `n` draws of a variable (default: the main one), spread over all chains."""
        draws = self.flat(variable)
        if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= len(draws):
            raise ModelError(f"Expected 1 <= n={n} <= {len(draws)} draws; fit with more draws.")
        return draws[np.linspace(0, len(draws) - 1, n).round().astype(int)]

    def mean(self, variable: str | None = None) -> Any:
        """Return the posterior mean: a number, or an array with one for each label."""
        return _plain(self.flat(variable).mean(axis=0))

    def interval(
        self, level: float = 0.9, variable: str | None = None, kind: Interval = "central"
    ) -> tuple[Any, Any]:
        """Return an interval of posterior probability `level`, privacy noise included.

        "central" leaves out as much probability below as above; "hdi" is the narrowest interval.
        Of a single draw, a point, its ends are not a number.
        """
        low, high = ends_of(self.flat(variable), level, kind)
        return _plain(low), _plain(high)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The classes that `predict` chooses from, in the order of `predict_proba`'s columns."""
        raise self._cannot()

    def predict(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return each row's most probable class, or the posterior mean of its target."""
        raise self._cannot()

    def predict_proba(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the posterior mean probability of each class, shape (row, class)."""
        raise self._cannot()

    def predict_interval(
        self, table: Mapping[str, Any], level: float = 0.9
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of central intervals of posterior probability `level`.

        They are intervals of the classes' probabilities, shaped like `predict_proba`, or without
        classes of the targets themselves, shaped like `predict`.
        """
        raise self._cannot()

    def log_likelihood(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the log of each row's mean probability over draws."""
        raise self._cannot()

    def _cannot(self) -> ModelError:
        instead = (
            ": .predictive() has values that one more row might have" if self.predicted else ""
        )
        return ModelError(f"{self.model['model']} has no features to predict this from{instead}.")

    def predictive(self, variable: str | None = None) -> np.ndarray:
        """Return a posterior predictive draw of one more row for each draw, as levels if named."""
        if not self.predicted:
            raise ModelError("Expected rows to predict for: write posterior.predict(table).")
        name = next(iter(self.predicted)) if variable is None else variable
        if name not in self.predicted:
            raise ModelError(f"No variable {name!r}; there are {', '.join(self.predicted)}.")
        flat = self.predicted[name].reshape(-1, *self.predicted[name].shape[2:])
        return np.array(self.coords[name])[flat] if name in self.coords else flat

    def summary(self, level: float = 0.9, kind: Interval = "central") -> pd.DataFrame:
        """Return the mean, standard deviation and interval of every variable.

        Intervals are "central" (columns `5%` and `95%`), or "hdi", the narrowest (`hdi_5%` and
        `hdi_95%`), whatever ArviZ's defaults are. Of draws that are the states of a chain, also the
        effective sample size `ess` and `r_hat`, of split halves. `rows` is about how many rows
        have a value, where that was measured or is public. `attrs["warnings"]` has the posterior's
        warnings, `attrs["rows"]` the number of rows in words, or that it was not measured, and
        `attrs["missing"]` what is known of rows without a value.
        """
        return self.table(level, kind).frame()

    def table(self, level: float = 0.9, kind: Interval = "central") -> Table:
        """Return what `summary` shows, without pandas."""
        parts: list[tuple[Sequence[str], Mapping[str, np.ndarray]]] = []
        for variable in self.draws:
            flat = self.flat(variable)
            low, high = self.interval(level, variable, kind)
            sd = flat.std(axis=0) * spread_known(flat)
            columns = summary_columns(flat.mean(axis=0), sd, low, high, level, kind)
            if self.chained and self.draws[variable].shape[1] >= _FEWEST:
                columns |= mixing(self.draws[variable])
            parts.append((self._labels(variable), columns))
        rows = self.rows
        if rows is not None and "rows" not in self.draws and not self.chained:
            half = ndtri(tails(level)[1]) * rows.sd
            most = most_rows(self.releases[-1])
            ends = max(rows.estimate - half, 0.0), min(rows.estimate + half, most)
            columns = summary_columns(rows.estimate, rows.sd, *ends, level, kind)
            parts.append((["rows"], columns))
        return Table.of(parts, self._said())

    def _said(self) -> dict[str, Any]:
        """Warnings, and what is known of rows with and without a value, in words."""
        (release,) = self.releases
        rows = self.rows
        return {
            "warnings": list(self.warnings),
            "rows": "not measured" if rows is None else str(rows),
            "missing": [str(each) for each in release.missing()],
        }

    def to_arviz(self) -> Any:
        """Return the draws and the release, with the privacy facts in `attrs`.

        It is InferenceData where ArviZ 0.2x is installed and a DataTree where it is 1.x. A name
        that is taken has an ending there: `_level` a dimension that has the name of a variable,
        `_predicted` the predictive draws of one, `_` a variable called chain or draw.
        """
        return to_groups(*self._groups())

    def _kept(self) -> Mapping[str, np.ndarray]:
        """Draws for ArviZ and for files."""
        return self.draws

    def _groups(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, str]]:
        """Groups of arrays, their dimensions, the labels of these, and the privacy facts."""
        observed, dims, coords = {}, dict(self.dims), dict(self.coords)
        for release in self.releases:
            for block in release.blocks:
                name = f"released_{block.name}"
                observed[name] = release.table(block.name).value
                dims[name] = tuple(f"{name}_{axis.name}" for axis in block.axes)
                for dim, axis in zip(dims[name], block.axes, strict=True):
                    coords[dim] = tuple("(missing)" if v is None else v for v in axis.labels)
        groups = {
            "posterior": self._kept(),
            "posterior_predictive": self.predicted,
            "observed_data": observed,
            "constant_data": self.constants,
        }
        certificate = self.certificate
        facts = {
            "model": json.dumps(dict(self.model)),
            "noise": self.noise,
            "data": certificate.data,
            "epsilon": str(certificate.epsilon),
            "delta": str(certificate.delta),
            "neighbours": certificate.neighbours,
            "unit": certificate.unit,
            "certificate": certificate.to_json(),
        }
        called = {dim: free_name(dim, self.dims, "_level") for dim in coords}
        named = {free_name(v, (), "_"): [called[d] for d in names] for v, names in dims.items()}
        labels = {called[d]: [_coordinate(v) for v in values] for d, values in coords.items()}
        predicted = groups["posterior_predictive"]
        kept = {
            group: {free_name(name, (), "_"): array for name, array in arrays.items()}
            for group, arrays in groups.items()
        } | {"posterior_predictive": dict(zip(self._predicted_names(), predicted.values()))}
        return kept, named, labels, facts

    def _predicted_names(self) -> list[str]:
        """What predictive draws are called in a file: dimensions go by the name of a variable."""
        return [free_name(name, self.dims, "_predicted") for name in self.predicted]

    def save(self, path: str | Path) -> None:
        """Write a NetCDF file that ArviZ opens and `Posterior.load` reads back whole."""
        *groups, facts = self._groups()
        facts |= {
            "tacit_dims": json.dumps({k: list(v) for k, v in self.dims.items()}),
            "tacit_coords": json.dumps({k: list(v) for k, v in self.coords.items()}),
            "tacit_predicted": json.dumps(dict(zip(self._predicted_names(), self.predicted))),
            "tacit_kind": type(self).__name__,
            "tacit_warnings": json.dumps([list(self.warnings), self.chained]),
            "tacit_releases": to_json([r.to_dict() for r in self.releases]),
        }
        if not Path(path).parent.is_dir():
            raise FileError(f"Cannot write {path}: there is no folder {Path(path).parent}.")
        write_groups(path, *groups, facts)

    @classmethod
    def load(cls, path: str | Path) -> Posterior:
        """Return the posterior that `save` wrote to this file."""
        try:
            groups, facts = read_groups(path)
            dims = json.loads(facts["tacit_dims"])
            coords = json.loads(facts["tacit_coords"])
            warned, chained = json.loads(facts["tacit_warnings"])
            names = json.loads(facts.get("tacit_predicted", "{}"))
            drawn = {name: free_name(name, (), "_") for name in dims}
            found = groups["posterior"]
            predicted = groups.get("posterior_predictive", {})
            return _TYPES.get(facts["tacit_kind"], cls)(
                draws={name: found[kept] for name, kept in drawn.items() if kept in found},
                dims={name: tuple(names) for name, names in dims.items()},
                coords={name: tuple(labels) for name, labels in coords.items()},
                model=json.loads(facts["model"]),
                releases=tuple(Release.from_dict(r) for r in from_json(facts["tacit_releases"])),
                noise=facts["noise"],
                predicted={names.get(name, name): array for name, array in predicted.items()},
                constants=groups.get("constant_data", {}),
                warnings=tuple(warned),
                chained=chained,
            )
        except (OSError, KeyError, ValueError) as error:
            raise FileError(f"Cannot read {path} as a saved posterior.") from error

    def __repr__(self) -> str:
        return self._described(*next(iter(self.draws.values())).shape[:2])

    def _repr_html_(self) -> str:
        table = self.table()
        rows = [
            (" ".join(map(str, np.atleast_1d(label))), *(f"{v:.4g}" for v in row))
            for label, row in table.rows()[:20]
        ]
        facts = {"model": self.model["model"], "warnings": "; ".join(self.warnings) or "none"}
        body = table_html(("", *map(str, table.columns)), rows)
        return facts_html("Posterior", facts, body, self.certificate._repr_html_())

    def _described(self, chains: int, draws: int) -> str:
        stamped = self.certificate
        stamp = stamped.data
        if stamp == "private":
            stamp = f"private: epsilon {plain(stamped.epsilon)}, delta {plain(stamped.delta)}"
        doubts = "".join(f"\n  warning: {text}" for text in self.warnings)
        return f"Posterior({self.model['model']}, {chains} x {draws} draws, {stamp}){doubts}"

    def __getitem__(self, variable: str) -> np.ndarray:
        """Return the draws of a variable, shape (chain, draw, ...)."""
        if variable not in self.draws:
            raise ModelError(f"No variable {variable!r}; there are {', '.join(self.draws)}.")
        return self.draws[variable]

    def flat(self, variable: str | None = None) -> np.ndarray:
        """Return the draws of a variable (default: the main one), all chains concatenated."""
        draws = self[next(iter(self.draws)) if variable is None else variable]
        return draws.reshape(-1, *draws.shape[2:])

    def _labels(self, variable: str) -> list[str]:
        names = [variable]
        for dim in self.dims[variable]:
            names = [f"{name}[{label}]" for name in names for label in self.coords[dim]]
        return names


def describe(model: Any) -> dict[str, Any]:
    """Return a model in plain values, its name and its options, for files and study files."""
    options = {field.name: _plain_values(getattr(model, field.name)) for field in fields(model)}
    return {"model": type(model).__name__, **options}


def _plain_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain_values(v) for key, v in value.items()}
    return [_plain_values(v) for v in value] if isinstance(value, tuple) else value


def column_of(table: Mapping[str, Any], name: str) -> Any:
    """Return a column of a table that the analyst has; data behind a wall are refused."""
    if hasattr(table, "prepay"):
        raise ModelError("Expected a table that you already have, not data behind a wall.")
    if name not in table:
        raise ModelError(f"Expected a column {name!r} in the table.")
    return table[name]


def log_mean(logs: np.ndarray) -> np.ndarray:
    """Return the log of the mean of exp(logs) over draws, the first axis."""
    top = logs.max(axis=0)
    return top + np.log(np.exp(logs - top).mean(axis=0))


def chunks(rows: int, numbers: int) -> Iterator[slice]:
    """Yield slices of rows such that arrays of `numbers` numbers a row hold 4 million at most."""
    step = max(1, 4_000_000 // numbers)
    for start in range(0, rows, step):
        yield slice(start, start + step)


def _plain(value: np.ndarray) -> Any:
    return float(value) if np.ndim(value) == 0 else value


def _coordinate(label: Any) -> Any:
    return str(label) if isinstance(label, bool) else label
