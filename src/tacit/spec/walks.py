"""What loops over parameters need of a model: log-likelihoods, gradients or Hessians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.spec.kernels import Contribution
from tacit.spec.packing import packed_size
from tacit.spec.programs import Program
from tacit.spec.release import Release
from tacit.spec.sums import BoundedSum


@dataclass(frozen=True)
class Walk:
    """What PrivateMetropolis and AnnealedImportance need of a model, on an unbounded scale.

    Attributes
    ----------
    columns
        The columns of a row.
    combinations
        From points (point, parameter), coefficients (number, point) and constants (number, by
        default 0) to a kernel or program and its state: a row contributes
        `coefficients @ log_likelihoods + constants`, with its log-likelihoods at the points. With
        `lifted=True` it contributes these numbers less the least of them.
    log_likelihoods
        From points to (row, point), for rows that stand for the public domain. They tell how much
        a row can contribute; the wall enforces what is made of it.
    max_gradient
        The most that a row's log-likelihood changes for a step of length one, by public bounds (a
        row beyond it is clipped).
    curvature
        A public guess of the curvature of one row's log-likelihood.
    start, scale
        The centre and the width of the prior.
    log_prior
        From points (..., parameter) to their log prior densities, up to a constant.
    draw_prior
        Points (point, parameter) drawn from the prior.
    """

    columns: tuple[str, ...]
    combinations: Callable[..., tuple[Contribution, Any]]
    log_likelihoods: Callable[[np.ndarray], np.ndarray]
    max_gradient: float
    curvature: float
    start: np.ndarray
    scale: float
    log_prior: Callable[[np.ndarray], np.ndarray]
    draw_prior: Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Gradients:
    """A model as its gradients, over one vector of parameters without bounds.

    Attributes
    ----------
    question
        The sum over rows of the gradient of a row's log-likelihood, one block of as many numbers
        as there are parameters, each unit's contribution clipped. The first array of its state is
        the parameters.
    log_prior_gradient
        The gradient of the log prior; public.
    start
        The initial value, from public knowledge.
    curvature
        A public guess of the curvature of one row's log-likelihood, or an upper bound where there
        is one. It sets the scale of default step sizes.
    prior_precision
        The curvature of the log prior near its centre.
    typical
        The mean of the curvature over all directions where that is far below `curvature`: chains
        are to be long enough for such a one.
    posterior
        The plug-in posterior of draws (chain, draw, parameter); `release` is the last answer.
    parameters
        The initial value from a posterior of the same model: its mean.
    frame
        If the parameters here are coordinates of a frame, the frame: the question's state then has
        the parameters themselves.
    """

    question: BoundedSum
    log_prior_gradient: Callable[[np.ndarray], np.ndarray]
    start: np.ndarray
    curvature: float
    prior_precision: float
    posterior: Callable[[Release, np.ndarray], Any]
    parameters: Callable[[Any], np.ndarray]

    frame: Frame | None = None
    typical: float | None = None

    def ask(self, theta: np.ndarray) -> BoundedSum:
        """The question at other parameters."""
        return at_parameters(self.question, self.vector(theta))

    def vector(self, theta: np.ndarray) -> np.ndarray:
        """The parameters in the state of the question."""
        return theta if self.frame is None else self.frame.vectors(theta)


def at_parameters(question: BoundedSum, theta: np.ndarray) -> BoundedSum:
    """The question with other parameters, the first array of its state; the rest stays."""
    kernel = question.kernel
    precision = kernel.state[0][0] if isinstance(kernel, Program) else np.float64
    return question.at((theta.astype(precision), *question.state[1:]))


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates psi of the parameters near a point: vector = origin + basis @ psi."""

    origin: np.ndarray
    basis: np.ndarray

    def vectors(self, psi: np.ndarray) -> np.ndarray:
        """The parameters at (..., coordinate)."""
        return self.origin + psi @ self.basis.T

    def coordinates(self, vectors: np.ndarray) -> np.ndarray:
        """The coordinates of parameters (..., parameter)."""
        return np.linalg.solve(self.basis, (vectors - self.origin).T).T

    def moved(self, psi: np.ndarray, turn: np.ndarray | None = None) -> Frame:
        """The frame with its origin at psi, and its basis times `turn`."""
        basis = self.basis if turn is None else self.basis @ turn
        return Frame(self.vectors(psi), basis)


@dataclass(frozen=True, eq=False)
class Derivatives:
    """A model of few parameters as derivatives of its log-likelihood, in any coordinates.

    Attributes
    ----------
    gradient
        From a row and a state of the parameters, a basis and `constants` to basis' g, g the
        gradient of the row's log-likelihood.
    hessian
        The same; after it the negative Hessian basis' H basis, packed as in `tacit.spec.packing`
        and divided by the root of the number of parameters, so that the two parts are about equally
        long where a record has a curvature of 1; and a 1, by which rows are counted. In its state
        the clip, an array of one number, follows the basis.
    columns
        The columns of a row.
    frame
        Where to begin, and public coordinates in which a synthetic record has a curvature of 1.
    prior_mean, prior_precision
        The prior, or a normal that is about as wide.
    log_prior
        The log prior density as a function of JAX, or None if it is that normal.
    log_prior_gradient
        The gradient of the log prior.
    posterior
        From the last release, parameters (chain, draw, parameter) and how noise was handled.
    parameters
        The initial value from a posterior of the same model: its mean.
    clip
        The largest norm of one unit's contribution, where the model says so.
    contrasts
        What synthetic records say of the parameters, numbers as a function of JAX, for a look at
        how far it is from linear; None where that is known to be near enough.
    fair
        Whether `hessian` shortens records to the clip whatever their targets, as if they had
        weights: then a clip moves no estimate, and each record still counts as 1.
    sites
        Of a NumPyro model, the program of its variables and their priors; it returns the vector.
    """

    gradient: Contribution
    hessian: Contribution
    columns: tuple[str, ...]
    frame: Frame
    prior_mean: np.ndarray
    prior_precision: np.ndarray
    log_prior: Callable[[Any], Any] | None
    log_prior_gradient: Callable[[np.ndarray], np.ndarray]
    posterior: Callable[[Release, np.ndarray, str], Any]
    parameters: Callable[[Any], np.ndarray]
    constants: tuple[np.ndarray, ...] = ()
    clip: float | None = None
    contrasts: Callable[[Any], Any] | None = None
    fair: bool = False
    sites: Callable[[], Any] | None = None

    @property
    def size(self) -> int:
        return self.prior_mean.size

    def question(self, frame: Frame, clip: float, *, hessian: bool = False) -> BoundedSum:
        """Ask for the gradient at the origin of a frame in its coordinates; and the Hessian."""
        kernel = self.hessian if hessian else self.gradient
        size = self.size + packed_size(self.size) + 1 if hessian else self.size
        precision = kernel.state[0][0] if isinstance(kernel, Program) else "float64"
        limit = (np.full(1, clip, precision),) * hessian
        place = frame.origin.astype(precision), frame.basis.astype(precision)
        state = (*place, *limit, *self.constants)
        return BoundedSum(kernel, self.columns, size=size, clip=clip, state=state)

    def gradients(
        self, frame: Frame, clip: float, curvature: float, prior_precision: float = 0.0
    ) -> Gradients:
        """The gradients in the coordinates of a frame in which a unit has this `curvature`."""
        question = self.question(frame, clip)
        return Gradients(
            question=question,
            log_prior_gradient=lambda psi: (
                frame.basis.T @ self.log_prior_gradient(frame.vectors(psi))
            ),
            start=np.zeros(self.size),
            curvature=curvature,
            prior_precision=prior_precision,
            posterior=lambda release, psi: self.posterior(release, frame.vectors(psi), "tempered"),
            parameters=lambda posterior: frame.coordinates(self.parameters(posterior)),
            frame=frame,
        )
