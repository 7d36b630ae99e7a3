"""Inference methods, one a file.

Options of one name mean the same in every method. `epsilon` and `delta` are what all of it costs.
`steps` is the length of a loop, of which each step is a question to the wall (in a draw by
`OnePosteriorSample`, a proposal behind it); a Gibbs sampler has `sweeps`, of a question for a
block, and annealed importance sampling `runs` through `temperatures`. `draws` are released, where
their number is part of the price. `sampling`, of `tacit.subsampling`, says who takes part in a
step. `step_size` is how far a step goes, `candidates` how many points it may choose from, `initial`
where the first begins, and `n_units` about how many units there are, where that is secret.

A new method is one line more here: `fit`, `plan`, study files and the command line know what is
imported below.
"""

from typing import Any

from tacit.methods.annealed import AnnealedImportance as AnnealedImportance
from tacit.methods.baselines import ObjectivePerturbation as ObjectivePerturbation
from tacit.methods.baselines import OutputPerturbation as OutputPerturbation
from tacit.methods.dpvi import DPVI as DPVI
from tacit.methods.gibbs import PrivateGibbs as PrivateGibbs
from tacit.methods.hybrid import Hybrid as Hybrid
from tacit.methods.metropolis import PrivateMetropolis as PrivateMetropolis
from tacit.methods.newton import PrivateNewton as PrivateNewton
from tacit.methods.one_sample import OnePosteriorSample as OnePosteriorSample
from tacit.methods.ridge_newton import RidgeNewton as RidgeNewton
from tacit.methods.schedules import Constant as Constant
from tacit.methods.schedules import PhaseTransition as PhaseTransition
from tacit.methods.schedules import Polynomial as Polynomial
from tacit.methods.sgfs import SGFS as SGFS
from tacit.methods.sghmc import SGHMC as SGHMC
from tacit.methods.sghmc import SGNHT as SGNHT
from tacit.methods.sgld import SGLD as SGLD
from tacit.methods.statistics import Statistics as Statistics
from tacit.methods.vips import VIPS as VIPS
from tacit.spec.errors import ModelError

METHODS: tuple[type[Any], ...] = tuple(v for v in tuple(vars().values()) if hasattr(v, "needs"))


def suits(method: Any, model: Any) -> bool:
    """Whether a model has what the method, or the type of it, needs."""
    return all(any(hasattr(model, f) for f in one.split(" or ")) for one in method.needs)


def check_suits(method: Any, model: Any, asked: str | None = None) -> None:
    """Refuse a pair that makes no sense, and name what can fit the model in words to write.

    `asked` is what the user wrote, where that is not the method's own name.
    """
    if suits(method, model):
        return
    if asked is None:
        asked = type(method.mechanism if isinstance(method, Statistics) else method).__name__
    able = [each for each in METHODS if suits(each, model)]
    known = [_HOMES.get(each.__name__, f"tacit.methods.{each.__name__}") for each in able]
    if {Statistics, PrivateNewton, VIPS} & set(able):
        known.insert(0, "tacit.Budget")
    name = type(model).__name__
    advice = f"{name} cannot be fitted by {asked}; it can by {', '.join(known)}"
    if isinstance(method, OnePosteriorSample):
        advice += "; for a draw, write the log-likelihood of a row as a tacit.LogDensity"
    raise ModelError(f"{advice}.")


_HOMES = {
    "Statistics": "tacit.Laplace, tacit.Gaussian",  # nobody writes Statistics
    **{name: f"tacit.{name}" for name in ("SGLD", "VIPS", "OnePosteriorSample", "PrivateNewton")},
}
