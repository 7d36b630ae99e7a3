"""ArviZ, whichever is installed: 0.2x with InferenceData, or 1.x with DataTree.

Only what both have is used, and nothing that has a default of probability or type of interval,
which 1.0 changed: intervals are Tacit's own.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

_ENGINE = "h5netcdf"


def load_arviz() -> ModuleType:
    """Return the ArviZ module, imported lazily; hides the FutureWarning of 0.2x about 1.0."""
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
    """Return InferenceData or a DataTree with these groups, leaving out those that are empty."""
    az = load_arviz()
    kept = {name: dict(values) for name, values in groups.items() if values}
    named = {
        "dims": {name: list(each) for name, each in dims.items()},
        "coords": {name: list(each) for name, each in coords.items()},
    }
    old = int(az.__version__.split(".")[0]) < 1
    data = az.from_dict(**kept, **named) if old else az.from_dict(kept, **named)
    data.attrs.update(attrs)
    data["posterior"].attrs.update(attrs)
    return data


def write_groups(data: Any, path: str | Path) -> None:
    """Write NetCDF that either ArviZ opens."""
    data.to_netcdf(str(path), engine=_ENGINE)


def read_groups(path: str | Path) -> tuple[dict[str, dict[str, np.ndarray]], Mapping[str, Any]]:
    """Return the arrays of each group of a file, by name, and the attributes of the whole."""
    data = load_arviz().from_netcdf(str(path), engine=_ENGINE)
    names = data.groups() if callable(data.groups) else [g.strip("/") for g in data.groups]
    found = {
        name: {str(k): values.to_numpy() for k, values in data[name].data_vars.items()}
        for name in names
        if name
    }
    attrs = dict(data.attrs)
    if hasattr(data, "close"):  # a DataTree keeps its file open
        data.close()
    return found, attrs


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
