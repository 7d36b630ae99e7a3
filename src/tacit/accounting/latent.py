"""How far one unit moves the scores of hidden states and of latent classes' tables."""

from __future__ import annotations

import math

import numpy as np

from tacit.accounting.draws import ROUNDING, changed_rows
from tacit.laws import truncated_dirichlet
from tacit.spec.columns import Tokens
from tacit.spec.hidden_states import Panel, StatePaths
from tacit.spec.latent_tables import LatentTables
from tacit.spec.schema import Schema


def paths_range(query: StatePaths, schema: Schema) -> float:
    """The range of `StatePaths`: how much better one state can explain a row than another."""
    # proof: paths-range. A row may lack an emission, so none takes anything away.
    gaps = np.zeros((query.states, query.states))
    for profile in query.profiles:
        log = np.log(profile)
        gaps += np.maximum(0.0, (log[:, None, :] - log[None, :, :]).max(axis=2))
    return float(gaps.max()) * changed_rows(schema) * ROUNDING


def profiles_range(panel: Panel, truncation: float, schema: Schema) -> float:
    """The range of `StateProfiles` and `StateChain`: all emissions of a row together."""
    # proof: profiles-range. No level has a probability below truncation / levels.
    levels = [len(schema[name].labels) for name in panel.emissions]
    one = math.fsum(truncated_dirichlet.width(k, truncation / k) for k in levels if k > 1)
    return one * changed_rows(schema) * ROUNDING


def latent_range(query: LatentTables, schema: Schema) -> float:
    """The range of `LatentTables` given all assignments: a row's in each table that is drawn."""
    # proof: latent-range. A row adds one to a table, a document as many as it has words.
    one = 0.0
    for name in query.drawn:
        column = schema[name] if name in query.columns else None
        words = column.max_length if isinstance(column, Tokens) else 1
        levels = query.count_levels(name)
        one += (
            words * truncated_dirichlet.width(levels, query.truncation / levels)
            if levels > 1
            else 0.0
        )
    return one * changed_rows(schema) * ROUNDING
