"""The posterior given a release: draws, the release, and its certificate."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from tacit.spec.certificate import Certificate
from tacit.spec.errors import FileError, ModelError
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling
from tacit.spec.wire import from_json, to_json

if TYPE_CHECKING:
    import arviz as az


_TYPES: dict[str, type[Posterior]] = {}  # subclasses by name, for `load`


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of each variable, shaped (chain, draw, ...), the main variable first.

    Nothing in it comes from the raw data except through its releases.
    """

    draws: Mapping[str, np.ndarray]
    dims: Mapping[str, tuple[str, ...]]
    coords: Mapping[str, tuple[Any, ...]]
    model: Mapping[str, Any]
    releases: tuple[Release, ...]
    noise: str
    predicted: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __init_subclass__(cls) -> None:
        _TYPES[cls.__name__] = cls

    @classmethod
    def of(
        cls,
        model: Mapping[str, Any],
        release: Release,
        sampling: Sampling,
        draws: Mapping[str, np.ndarray],
        *,
        dims: Mapping[str, tuple[str, ...]] | None = None,
        coords: Mapping[str, tuple[Any, ...]] | None = None,
        predicted: Mapping[str, np.ndarray] | None = None,
    ) -> Self:
        """Return a posterior given draws along one leading axis, reshaped to (chain, draw, ...).

        `rows`, the number of rows, is dropped where it is constant, hence known.
        """
        chains = sampling.chains, sampling.draws
        kept = {k: v for k, v in draws.items() if k != "rows" or np.ptp(v) > 0}

        def shaped(flat: np.ndarray) -> np.ndarray:
            return np.ascontiguousarray(np.reshape(flat, (*chains, *np.shape(flat)[1:])))

        return cls(
            draws={name: shaped(flat) for name, flat in kept.items()},
            dims={name: (dims or {}).get(name, ()) for name in kept},
            coords=coords or {},
            model=model,
            releases=(release,),
            noise=sampling.noise,
            predicted={name: shaped(flat) for name, flat in (predicted or {}).items()},
        )

    @classmethod
    def walked(
        cls,
        model: Mapping[str, Any],
        release: Release,
        draws: Mapping[str, np.ndarray],
        **labels: Any,
    ) -> Self:
        """Return the public states of a chain as posterior draws; `release` is one of its steps.

        They are draws of a tempered posterior, without a correction for noise.
        """
        count = len(next(iter(draws.values())))
        made = cls.of(model, release, Sampling(draws=count, chains=1), draws, **labels)
        return replace(made, noise="tempered")

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

    def interval(self, level: float = 0.9, variable: str | None = None) -> tuple[Any, Any]:
        """Return the central interval of posterior probability `level`, privacy noise included."""
        if not 0 < level < 1:
            raise ModelError(f"Expected 0 < level={level} < 1.")
        tails = [(1 - level) / 2, (1 + level) / 2]
        low, high = np.quantile(self.flat(variable), tails, axis=0)
        return _plain(low), _plain(high)

    def predict(self, table: Mapping[str, Any]) -> Any:
        """Return the predicted value of each row of a table that you already have."""
        raise self._cannot()

    def predict_interval(self, table: Mapping[str, Any], level: float = 0.9) -> Any:
        """Return the interval that holds each row's value with probability `level`."""
        raise self._cannot()

    def predict_proba(self, table: Mapping[str, Any]) -> Any:
        """Return the probability of each class for each row of a table that you already have."""
        raise self._cannot()

    def log_likelihood(self, table: Mapping[str, Any]) -> Any:
        """Return the log likelihood of each row of a table that you already have."""
        raise self._cannot()

    def _cannot(self) -> ModelError:
        return ModelError(
            f"{self.model['model']} has no features to predict this from: .predictive() has "
            "values that one more row might have."
        )

    def predictive(self, variable: str | None = None) -> np.ndarray:
        """Return a posterior predictive draw of one more row for each draw, as levels if named."""
        if not self.predicted:
            raise ModelError("Expected rows to predict for: write posterior.predict(table).")
        name = next(iter(self.predicted)) if variable is None else variable
        if name not in self.predicted:
            raise ModelError(f"No variable {name!r}; there are {', '.join(self.predicted)}.")
        flat = self.predicted[name].reshape(-1, *self.predicted[name].shape[2:])
        return np.array(self.coords[name])[flat] if name in self.coords else flat

    def summary(self, level: float = 0.9) -> pd.DataFrame:
        """Return the mean, standard deviation and interval of every variable."""
        frames = []
        for variable in self.draws:
            flat = self.flat(variable)
            low, high = self.interval(level, variable)
            columns = {
                "mean": flat.mean(axis=0),
                "sd": flat.std(axis=0),
                f"{50 - 50 * level:g}%": low,
                f"{50 + 50 * level:g}%": high,
            }
            index = self._labels(variable)
            frames.append(pd.DataFrame({k: np.ravel(v) for k, v in columns.items()}, index=index))
        return pd.concat(frames)

    def to_arviz(self) -> az.InferenceData:
        """Return the draws and the release as InferenceData, with the privacy facts in `attrs`."""
        az = load_arviz()
        observed, dims, coords = {}, dict(self.dims), dict(self.coords)
        for release in self.releases:
            for block in release.blocks:
                name = f"released_{block.name}"
                observed[name] = release.table(block.name).value
                dims[name] = tuple(f"{name}_{axis.name}" for axis in block.axes)
                for dim, axis in zip(dims[name], block.axes, strict=True):
                    coords[dim] = tuple("(missing)" if v is None else v for v in axis.labels)
        data = az.from_dict(
            posterior=dict(self.draws),
            posterior_predictive=dict(self.predicted) or None,
            observed_data=observed,
            dims={name: list(names) for name, names in dims.items()},
            coords={name: [_coordinate(v) for v in values] for name, values in coords.items()},
        )
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
        data.attrs.update(facts)
        data["posterior"].attrs.update(facts)
        return data

    def save(self, path: str | Path) -> None:
        """Write a NetCDF file that ArviZ opens and `Posterior.load` reads back whole."""
        data = self.to_arviz()
        data.attrs["tacit_dims"] = json.dumps({k: list(v) for k, v in self.dims.items()})
        data.attrs["tacit_coords"] = json.dumps({k: list(v) for k, v in self.coords.items()})
        data.attrs["tacit_kind"] = type(self).__name__
        data.attrs["tacit_releases"] = to_json([r.to_dict() for r in self.releases])
        data.to_netcdf(str(path), engine="h5netcdf")

    @classmethod
    def load(cls, path: str | Path) -> Posterior:
        """Return the posterior that `save` wrote to this file."""
        az = load_arviz()
        try:
            data = az.from_netcdf(str(path), engine="h5netcdf")
            facts = data.attrs
            dims = json.loads(facts["tacit_dims"])
            coords = json.loads(facts["tacit_coords"])
            return _TYPES.get(facts["tacit_kind"], cls)(
                draws={name: data["posterior"][name].to_numpy() for name in dims},
                dims={name: tuple(names) for name, names in dims.items()},
                coords={name: tuple(labels) for name, labels in coords.items()},
                model=json.loads(facts["model"]),
                releases=tuple(Release.from_dict(r) for r in from_json(facts["tacit_releases"])),
                noise=facts["noise"],
                predicted={
                    str(name): values.to_numpy()
                    for name, values in data.get("posterior_predictive", {}).items()
                },
            )
        except (OSError, KeyError, ValueError) as error:
            raise FileError(f"Cannot read {path} as a saved posterior.") from error

    def __repr__(self) -> str:
        chains, draws = next(iter(self.draws.values())).shape[:2]
        stamp = self.certificate.data
        if stamp == "private":
            stamp = f"private: epsilon {self.certificate.epsilon}, delta {self.certificate.delta}"
        return f"Posterior({self.model['model']}, {chains} x {draws} draws, {stamp})"

    def flat(self, variable: str | None = None) -> np.ndarray:
        """Return the draws of a variable (default: the main one), all chains concatenated."""
        name = next(iter(self.draws)) if variable is None else variable
        if name not in self.draws:
            raise ModelError(f"No variable {name!r}; there are {', '.join(self.draws)}.")
        draws = self.draws[name]
        return draws.reshape(-1, *draws.shape[2:])

    def _labels(self, variable: str) -> list[str]:
        names = [variable]
        for dim in self.dims[variable]:
            names = [f"{name}[{label}]" for name in names for label in self.coords[dim]]
        return names


def column_of(table: Mapping[str, Any], name: str) -> Any:
    """Return a column of a table that the analyst has; data behind a wall are refused."""
    if hasattr(table, "prepay"):
        raise ModelError("Expected a table that you already have, not data behind a wall.")
    if name not in table:
        raise ModelError(f"Expected a column {name!r} in the table.")
    return table[name]


def load_arviz() -> ModuleType:
    """Return the ArviZ module, imported lazily; hides its FutureWarning about 1.0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def _plain(value: np.ndarray) -> Any:
    return float(value) if np.ndim(value) == 0 else value


def _coordinate(label: Any) -> Any:
    return str(label) if isinstance(label, bool) else label
