"""ArviZ, and the NetCDF files that it reads, with a group for each type of variable.

Files are written by h5netcdf alone: importing xarray or ArviZ takes longer than many a fit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

ENGINE = "h5netcdf"
_SAMPLED = ("posterior", "posterior_predictive")  # groups of variables with a draw each
_DRAWN = ("chain", "draw")
_SLASH = "\N{DIVISION SLASH}"  # a common one would make a group


def free_name(name: str, taken: Collection[str], ending: str) -> str:
    """Return what a variable or a dimension is called in a file and in ArviZ.

    A column may be called "draw", or like a variable; labels are a variable of their dimension's
    name, which must be the only one.
    """
    return name.replace("/", _SLASH) + ending * (name in _DRAWN or name in taken)


def write_groups(
    path: str | Path,
    groups: Mapping[str, Mapping[str, np.ndarray]],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
    attrs: Mapping[str, str],
) -> None:
    """Write groups of arrays, leaving out those that are empty, with attributes of the whole."""
    import h5netcdf

    with h5netcdf.File(path, "w") as file:
        file.attrs.update(attrs)
        for group, arrays in groups.items():
            if arrays:
                made = file.create_group(group)
                made.attrs.update(attrs if group == "posterior" else {})
                _write_arrays(made, arrays, _DRAWN * (group in _SAMPLED), dims, coords)


def _write_arrays(
    group: Any,
    arrays: Mapping[str, np.ndarray],
    first: Sequence[str],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
) -> None:
    """Write arrays whose dimensions are `first` and their own, with labels of all dimensions."""
    for name, array in arrays.items():
        named = [*first, *dims.get(name, ())]
        named += [f"{name}_dim_{i}" for i in range(array.ndim - len(named))]
        for dim, size in zip(named, array.shape, strict=True):
            if dim not in group.dimensions:
                group.dimensions[dim] = size
                labels = np.asarray(coords[dim]) if dim in coords else np.arange(size)
                _write_array(group, dim, [dim], labels)
        _write_array(group, name, named, array)


def _write_array(group: Any, name: str, dims: Sequence[str], array: np.ndarray) -> None:
    """Write texts and truth values as xarray does, which NetCDF has no types for."""
    import h5py

    match array.dtype.kind:
        case "U":
            group.create_variable(name, dims, h5py.string_dtype(), array.astype(object))
        case "b":
            group.create_variable(name, dims, "i1", array.astype("i1")).attrs["dtype"] = "bool"
        case "f":
            group.create_variable(name, dims, array.dtype, array, fillvalue=np.nan)
        case _:
            group.create_variable(name, dims, array.dtype, array)


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
