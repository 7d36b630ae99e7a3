"""A guide of NumPyro's, fitted to the law of released gradients and the model's prior.

Stochastic variational inference: Adam on the evidence lower bound of

    log prior(vector) + log mean_k N(gradient; H_k psi, H_k + W) / Z_k,

with H_k draws of the Hessian and Z_k their evidence under a normal prior, so that each counts
alike, as in draws of `tacit.infer.linearised`. No term has a record in it: it is post-processing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from tacit.infer.linearised import Linearised
from tacit.spec.errors import ModelError
from tacit.spec.walks import Derivatives

_STEPS, _PARTICLES = 4000, 8
_RATE, _LAST_RATE = 0.02, 0.0002  # of Adam, in coordinates of the posterior's scale
_HESSIANS = 16
_RISING = 0.05  # nats of the bound between the last two fifths, above which it counts as rising
_SITE = "parameters"  # the site of an automatic guide


class Fitted(NamedTuple):
    """Draws (draw, parameter) of a guide, and a warning where it had not converged."""

    vectors: np.ndarray
    warnings: tuple[str, ...]


class Target(NamedTuple):
    """The law, in single precision; `log_evidence` is log Z_k under a normal prior."""

    jacobians: Any
    offs: Any
    log_evidence: Any
    origin: Any
    inverse: Any
    centre: Any
    scale: Any
    mean: Any
    precision: Any

    @classmethod
    def of(cls, law: Linearised, derivatives: Derivatives, seed: int) -> Target:
        mean, precision = derivatives.prior_mean, derivatives.prior_precision
        jacobians, offs, basis = law.whitened(precision, _HESSIANS, seed)
        origin, prior = law.frame.origin, basis.T @ precision @ basis
        total = np.swapaxes(jacobians, 1, 2) @ jacobians + prior
        linear = np.einsum("kij,ki->kj", jacobians, offs) + basis.T @ precision @ (mean - origin)
        centres = np.linalg.solve(total, linear[..., None])[..., 0]
        evidence = 0.5 * (np.sum(linear * centres - offs**2, axis=1) - np.linalg.slogdet(total)[1])
        some = law.normal_draws(mean, precision, 1000, np.random.default_rng(seed))
        scales = some.mean(axis=0), some.std(axis=0)
        every = jacobians, offs, evidence, origin, np.linalg.inv(basis), *scales, mean, precision
        return cls(*(np.asarray(each, np.float32) for each in every))

    @classmethod
    def blank(cls, size: int) -> Target:
        """A target of these shapes, to try a guide with."""
        one, many, square = np.zeros(size), np.zeros((_HESSIANS, size)), np.eye(size)
        jacobians, evidence = np.zeros((_HESSIANS, size, size)), np.zeros(_HESSIANS)
        every = jacobians, many, evidence, one, square, one, one + 1, one, square
        return cls(*(np.asarray(each, np.float32) for each in every))

    def log_density(self, vector: Any) -> Any:
        """The log density of the released gradients, up to a constant."""
        import jax
        import jax.numpy as jnp

        off = self.offs - self.jacobians @ (self.inverse @ (vector - self.origin))
        return jax.nn.logsumexp(-0.5 * jnp.sum(off**2, axis=1) - self.log_evidence)

    def log_prior(self, vector: Any) -> Any:
        """The log density of the normal prior, up to a constant."""
        return -0.5 * (vector - self.mean) @ self.precision @ (vector - self.mean)


def check_guide(guide: Any) -> None:
    """Refuse what cannot be fitted without records."""
    try:
        from numpyro.infer import autoguide
    except ImportError:
        raise ModelError("A guide needs NumPyro: pip install 'tacit[jax]'.") from None
    if _automatic(guide):
        if issubclass(_class_of(guide), autoguide.AutoDelta):
            raise ModelError("Expected a guide with a density, got AutoDelta: it has no width.")
        return
    if isinstance(guide, autoguide.AutoGuide):
        raise ModelError(
            f"Expected the class of an automatic guide, got an instance: write guide="
            f"{type(guide).__name__}, with options as functools.partial({type(guide).__name__}, "
            "...)."
        )
    if not callable(guide):
        raise ModelError(
            'Expected guide="full_rank", "mean_field", a class of numpyro.infer.autoguide or a '
            f"function of NumPyro, got {guide!r}."
        )
    for argument in inspect.signature(guide).parameters.values():
        takes = argument.kind in (argument.POSITIONAL_ONLY, argument.POSITIONAL_OR_KEYWORD)
        if argument.default is argument.empty and takes:
            raise ModelError(
                f"Expected a guide without arguments, got one with {argument.name!r}: it is "
                "fitted to released gradients and sees no records, so that an amortised guide, "
                "with variables of single records, has nothing to go by."
            )


def guide_name(guide: Any) -> str:
    """What a certificate calls a guide."""
    made = _class_of(guide)
    return f"guide {getattr(made, '__name__', type(made).__name__)}"


def try_guide(guide: Any, derivatives: Derivatives, count: int) -> None:
    """Trace the fit of a guide, so that what fails does so before anything is paid."""
    import jax

    if not _automatic(guide) and derivatives.sites is None:
        raise ModelError(
            "Expected a LogDensity of a NumPyro model beside a guide that is a function: take a "
            "class of numpyro.infer.autoguide, which goes with any model."
        )
    try:
        run = _compiled(guide, derivatives.log_prior, derivatives.sites, count)
        jax.eval_shape(run, jax.random.key(0), Target.blank(derivatives.size))
    except ModelError:
        raise
    except Exception as error:  # noqa: BLE001 - their code may raise anything
        reason = str(error).strip().split("\n")[0]
        raise ModelError(
            f"Expected a guide that NumPyro fits to {derivatives.size} parameters, got "
            f"{type(error).__name__}: {reason}"
        ) from None


def guided_draws(
    guide: Any, law: Linearised, derivatives: Derivatives, count: int, seed: int
) -> Fitted:
    """Return draws of a guide after all steps of Adam."""
    import jax

    run = _compiled(guide, derivatives.log_prior, derivatives.sites, count)
    vectors, losses = run(jax.random.key(seed % 2**31), Target.of(law, derivatives, seed))
    fifths = np.asarray(losses, float).reshape(5, -1)
    error = float(np.hypot(*(fifths[-2:].std(axis=1) / fifths.shape[1] ** 0.5)))
    rise = float(fifths[-2].mean() - fifths[-1].mean())
    warnings: tuple[str, ...] = ()
    if not (np.isfinite(losses).all() and abs(rise) < _RISING + 4 * error):
        warnings = (
            "the guide had not converged: its evidence lower bound still moved by "
            f'{rise:.2g} in the last fifth of the steps; take guide="full_rank", or narrower '
            "initial values in a guide of your own",
        )
    return Fitted(np.asarray(vectors, float), warnings)


@lru_cache(maxsize=8)
def _compiled(guide: Any, log_prior: Any, sites: Any, count: int) -> Callable[..., Any]:
    """Return the fit as a function of a key and a target: draws of vectors, and losses by step."""
    import jax
    import numpyro
    from numpyro import handlers
    from numpyro.infer import SVI, Trace_ELBO, init_to_value
    from numpyro.optim import Adam

    def automatic(target: Target) -> Any:
        size = target.centre.shape[0]
        law = numpyro.distributions.Normal(0, 1).expand([size]).to_event(1).mask(False)
        vector = target.centre + target.scale * numpyro.sample(_SITE, law)
        with handlers.block():  # a log prior that runs a NumPyro model has sites of its own
            prior = target.log_prior(vector) if log_prior is None else log_prior(vector)
        numpyro.factor("prior", prior)
        return vector

    def variables(target: Target) -> Any:
        return automatic(target) if _automatic(guide) else sites()

    def model(target: Target) -> None:
        numpyro.factor("released", target.log_density(variables(target)))

    def called(target: Target) -> Any:
        return guide()

    def rate(step: Any) -> Any:
        return _RATE * (_LAST_RATE / _RATE) ** (step / _STEPS)

    @jax.jit
    def run(key: Any, target: Target) -> Any:
        fitting, first, drawing = jax.random.split(key, 3)
        made = called
        if _automatic(guide):
            start = {_SITE: jax.numpy.zeros_like(target.centre)}
            made = guide(model, init_loc_fn=init_to_value(values=start))
        else:
            _check_sites(guide, partial(model, target))
        svi = SVI(model, made, Adam(rate), Trace_ELBO(num_particles=_PARTICLES))
        state, losses = jax.lax.scan(
            lambda state, _: svi.update(state, target), svi.init(fitting, target), length=_STEPS
        )
        parameters = svi.get_params(state)

        def drawn(key: Any) -> Any:
            if _automatic(guide):
                values = made.sample_posterior(key, parameters, target)
            else:
                given = handlers.substitute(handlers.seed(guide, key), data=parameters)
                values = _values(handlers.trace(given).get_trace())
            given = handlers.substitute(handlers.seed(variables, first), data=values)
            return given(target)

        return jax.vmap(drawn)(jax.random.split(drawing, count)), losses

    return run


def _check_sites(guide: Any, model: Any) -> None:
    """A guide must have the model's variables, all of them."""
    from numpyro import handlers

    wanted = set(_values(handlers.trace(handlers.seed(model, 0)).get_trace()))
    found = set(_values(handlers.trace(handlers.seed(guide, 0)).get_trace()))
    if found != wanted:
        raise ModelError(
            f"Expected a guide of the model's variables {', '.join(sorted(wanted))}; got "
            f"{', '.join(sorted(found)) or 'none'}."
        )


def _values(trace: Any) -> dict[str, Any]:
    """Values of variables; auxiliary ones are the guide's own."""
    return {
        name: site["value"]
        for name, site in trace.items()
        if site["type"] == "sample"
        and not site["is_observed"]
        and not site["infer"].get("is_auxiliary")
    }


def _class_of(guide: Any) -> Any:
    """The class of a guide that may have options."""
    return guide.func if isinstance(guide, partial) else guide


def _automatic(guide: Any) -> bool:
    from numpyro.infer.autoguide import AutoGuide

    made = _class_of(guide)
    return isinstance(made, type) and issubclass(made, AutoGuide)
