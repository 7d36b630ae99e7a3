"""Draws of the exponential mechanism and noisy minima: trusted, switched on by a wall's `allow`.

Their own randomness is the privacy. PROOFS-DRAWS.md says why; labels in the code point there. A
file each: `choice` among options, `conjugate` posteriors, `density` of any model, `latent_tables`
given private assignments, `logistic` regressions, hidden `states`.
"""

from collections.abc import Mapping
from typing import Any

from tacit.draws.choice import resolve_choice
from tacit.draws.conjugate import resolve_draw
from tacit.draws.density import resolve_density
from tacit.draws.latent_tables import resolve_latent
from tacit.draws.logistic import resolve_logistic
from tacit.draws.states import resolve_states
from tacit.spec.choice import Choice
from tacit.spec.density import DensityDraw
from tacit.spec.draws import ConjugateDraw
from tacit.spec.hidden_states import StateChain, StatePaths, StateProfiles
from tacit.spec.latent_tables import LatentTables
from tacit.spec.logistic import LogisticDraw, LogisticMinimum

DRAWS: Mapping[type, Any] = {
    Choice: resolve_choice,
    ConjugateDraw: resolve_draw,
    DensityDraw: resolve_density,
    LogisticDraw: resolve_logistic,
    LogisticMinimum: resolve_logistic,
    StatePaths: resolve_states,
    StateProfiles: resolve_states,
    StateChain: resolve_states,
    LatentTables: resolve_latent,
}

__all__ = ["DRAWS"]
