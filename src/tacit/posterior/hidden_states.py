"""The posterior of a hidden Markov model: states of cells, emissions and transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.posterior.base import Posterior, chunks, column_of, log_mean
from tacit.posterior.intervals import Interval
from tacit.posterior.table import Table
from tacit.spec.errors import ModelError

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

STATE = "hidden_state"


class HiddenStatesPosterior(Posterior):
    """Draws of `emission_<column>`, `transition`, `start` and `states`.

    `emission_<column>` (state, level) are the probabilities of a column's levels in each state,
    `states` (sequence, time) the number of the state that a cell is in. State 0 is the most common.
    """

    def states(self) -> pd.DataFrame:
        """Return the most probable state of each cell: sequences are rows, times are columns."""
        import pandas as pd

        sequence, time = self.dims["states"]
        return pd.DataFrame(
            self.state_probabilities().to_numpy().argmax(axis=2),
            index=pd.Index(self.coords[sequence], name=sequence),
            columns=pd.Index(self.coords[time], name=time),
        )

    def state_probabilities(self) -> xr.DataArray:
        """Return the probability of each state in each cell (sequence, time, hidden_state)."""
        import xarray as xr

        drawn = self.flat("states")
        share = [(drawn == k).mean(axis=0) for k in self.coords[STATE]]
        dims = (*self.dims["states"], STATE)
        return xr.DataArray(
            np.stack(share, axis=2), dims=dims, coords={d: list(self.coords[d]) for d in dims}
        )

    def table(self, level: float = 0.9, kind: Interval = "central") -> Table:
        """Return the mean, standard deviation and interval of all parameters but `states`."""
        shown = {name: drawn for name, drawn in self.draws.items() if name != "states"}
        return Posterior.table(replace(self, draws=shown), level, kind)

    def log_likelihood(self, table: Mapping[str, Any]) -> np.ndarray:
        """Return the log of each row's mean probability over draws, given its sequence and time.

        `table` has columns for sequence, time and emissions; a value that is not a public level
        is left out of its row. States of held-out cells are drawn from the Markov chain.
        """
        sequence, time = self.dims["states"]
        r, t = self._codes(table, sequence), self._codes(table, time)
        for name, codes in ((sequence, r), (time, t)):
            if np.any(codes < 0):
                raise ModelError(f"Expected {name!r} to have only its public levels in the table.")
        columns = list(self.model["emissions"])
        rows = np.stack([r, t, *(self._codes(table, name) for name in columns)], axis=1)
        distinct, which = np.unique(rows, axis=0, return_inverse=True)
        drawn = self.flat("states")
        logs = [np.log(np.maximum(self.flat(f"emission_{name}"), 1e-300)) for name in columns]
        each = np.arange(len(drawn))[:, None]
        found = np.empty(len(distinct))
        for some in chunks(len(distinct), len(drawn)):
            chunk = distinct[some]
            state = drawn[:, chunk[:, 0], chunk[:, 1]]
            log = np.zeros(state.shape)
            for log_p, codes in zip(logs, chunk[:, 2:].T, strict=True):
                log += np.where(codes < 0, 0.0, log_p[each, state, np.maximum(codes, 0)])
            found[some] = log_mean(log)
        return found[which.reshape(-1)]

    def _codes(self, table: Mapping[str, Any], name: str) -> np.ndarray:
        """Return the index of each value among the public levels, -1 for others."""
        import pandas as pd

        levels = self.coords[name]
        values = pd.Series(np.asarray(column_of(table, name)).ravel())
        if all(isinstance(level, str) for level in levels):
            values = values.astype(str).str.strip()
        index = {level: i for i, level in enumerate(levels)}
        return values.map(index).fillna(-1).to_numpy().astype(np.int64)
