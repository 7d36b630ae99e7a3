"""ArviZ, and the NetCDF files that it reads, with a group for each type of variable.

Files are written by xarray alone: importing ArviZ takes longer than many a fit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ENGINE = "h5netcdf"
_SAMPLED = ("posterior", "posterior_predictive")  # groups of variables with a draw each


def write_groups(
    path: str | Path,
    groups: Mapping[str, Mapping[str, np.ndarray]],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, str],
) -> None:
    """Write groups of arrays, leaving out those that are empty, with attributes of the whole."""
    import xarray as xr

    xr.Dataset(attrs=dict(attrs)).to_netcdf(path, mode="w", engine=ENGINE)
    for group, arrays in groups.items():
        if arrays:
            variables: dict[str, Any] = {}
            known: dict[str, Any] = {}
            for name, array in arrays.items():
                first = ("chain", "draw") if group in _SAMPLED else ()
                named = [*first, *dims.get(name, ())]
                named += [f"{name}_dim_{i}" for i in range(array.ndim - len(named))]
                variables[name] = (named, array)
                for dim, size in zip(named, array.shape, strict=True):
                    known[dim] = list(coords[dim]) if dim in coords else np.arange(size)
            inner = attrs if group == "posterior" else {}
            made = xr.Dataset(variables, coords=known, attrs=dict(inner))
            made.to_netcdf(path, mode="a", group=group, engine=ENGINE)


def read_groups(path: str | Path) -> tuple[dict[str, dict[str, np.ndarray]], Mapping[str, Any]]:
    """Return the arrays of each group of a file, by name, and the attributes of the whole."""
    import xarray as xr

    data = xr.open_groups(path, engine=ENGINE)
    try:
        found = {
            group.strip("/"): {str(k): values.to_numpy() for k, values in each.data_vars.items()}
            for group, each in data.items()
        }
        return found, dict(data["/"].attrs)
    finally:
        for each in data.values():
            each.close()


def load_arviz() -> ModuleType:
    """Return the ArviZ module, imported lazily; hides its FutureWarning about 1.0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def to_groups(
    groups: Mapping[str, Mapping[str, np.ndarray]],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, str],
) -> Any:
    """Return InferenceData of ArviZ 0.2x, or a DataTree of 1.x, without groups that are empty."""
    az = load_arviz()
    kept = {name: dict(values) for name, values in groups.items() if values}
    named: Any = {"dims": dict(dims), "coords": dict(coords)}
    old = int(az.__version__.split(".")[0]) < 1
    data = az.from_dict(**kept, **named) if old else az.from_dict(kept, **named)
    data.attrs.update(attrs)
    data["posterior"].attrs.update(attrs)
    return data


def mixing(draws: np.ndarray) -> dict[str, np.ndarray]:
    """Return effective sample sizes and R-hats of draws (chain, draw, ...), of split halves."""
    az = load_arviz()
    parts = draws.reshape(*draws.shape[:2], -1)
    halves = np.concatenate(np.array_split(parts[:, : parts.shape[1] // 2 * 2], 2, axis=1))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        each = [halves[:, :, i] for i in range(halves.shape[2])]
        ess = [float(az.ess(part, method="bulk")) for part in each]
        r_hat = [float(az.rhat(part, method="rank")) for part in each]
    return {"ess": np.array(ess), "r_hat": np.array(r_hat)}


def pareto_weights(log_ratio: np.ndarray) -> tuple[np.ndarray, float]:
    """Return smoothed log weights of draws by their log importance ratios, and Pareto's k."""
    az = load_arviz()
    if hasattr(az, "psislw"):
        weights, worst = az.psislw(log_ratio)
    else:
        from arviz_stats.base import array_stats

        weights, worst = array_stats.psislw(-log_ratio)  # of log-likelihoods to leave out
    k = float(worst)
    return np.asarray(weights), math.inf if math.isnan(k) else k
