"""A NumPyro model with one plate over records, as a density of one record.

The model is run on one synthetic record and on two. What it says of a record must be the same both
times, for the wall only ever shows it one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tacit.models.jax_density import Density, Layout, need_jax, number_of, synthetic_rows, tried
from tacit.spec.errors import ModelError
from tacit.spec.schema import Schema

_PRIOR_DRAWS = 64


def numpyro_density(model: Any, schema: Schema) -> Density:
    """`model` is the `LogDensity` that holds it."""
    need_jax()
    try:
        import numpyro  # noqa: F401
    except ImportError:
        raise ModelError("A NumPyro model needs NumPyro: pip install 'tacit[jax]'.") from None
    import jax
    import jax.numpy as jnp
    from numpyro.distributions import biject_to
    from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

    columns, bind = _binding(model, schema)
    rows = synthetic_rows(columns, schema, 8).astype(np.float32)
    program = model.model
    sites = _sites(program, bind(rows[:1]))
    _check_sites(sites, _sites(program, bind(rows[:2])))
    latent = {
        name: site
        for name, site in sites.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    layout = Layout(
        tuple(
            (name, biject_to(site["fn"].support).inverse_shape(np.shape(site["value"])))
            for name, site in latent.items()
        )
    )
    some = bind(rows[:1])  # priors do not depend on it
    prior_alone = _without_records(program, sites)

    def log_prior(vector: Any) -> Any:
        return -potential_energy(prior_alone, (), some, layout.arrays(vector))

    def constrained(vector: Any) -> dict[str, Any]:
        values = constrain_fn(prior_alone, (), some, layout.arrays(vector))
        return {name: values[name] for name in latent}

    def terms(vector: Any, some_rows: Any) -> Any:
        """Return the log-likelihood of each row."""
        return _terms(program, constrained(vector), bind(some_rows), len(some_rows))

    def log_likelihood(vector: Any, row: Any) -> Any:
        return terms(vector, row[None])[0]

    def drawn(key: Any) -> Any:
        values = _values(prior_alone, some, key)
        free = unconstrain_fn(prior_alone, (), some, {name: values[name] for name in latent})
        return jnp.concatenate([jnp.ravel(free[name]) for name in latent])

    what = "the NumPyro model"
    tried(log_likelihood, (jnp.zeros(layout.size), rows[0]), what)
    several = jax.jit(jax.vmap(drawn))(jax.random.split(jax.random.key(0), _PRIOR_DRAWS))
    start = np.nan_to_num(np.median(np.asarray(several, float), axis=0), posinf=0.0, neginf=0.0)
    away = np.median(np.abs(np.nan_to_num(np.asarray(several, float)) - start), axis=0)
    spread = np.clip(1.5 * away, 1e-3, 1e3)  # robust: priors may have no variance
    _check_rows(jax.jit(terms), [jnp.asarray(start), several[0], several[1]], rows)
    _check_prior(prior_alone, bind, layout, start, rows)
    every = jax.jit(jax.vmap(constrained))

    def values(vectors: np.ndarray) -> dict[str, np.ndarray]:
        flat = every(jnp.asarray(vectors.reshape(-1, layout.size)))
        return {
            name: np.asarray(part, float).reshape(*vectors.shape[:-1], *part.shape[1:])
            for name, part in flat.items()
        }

    def vector(arrays: Mapping[str, Any]) -> np.ndarray:
        given = {name: jnp.asarray(arrays[name]) for name in latent}
        return layout.vector(unconstrain_fn(prior_alone, (), some, given))

    def variables() -> Any:
        from numpyro import handlers

        with handlers.trace() as found:
            prior_alone(**some)
        free = [biject_to(found[n]["fn"].support).inv(found[n]["value"]) for n in latent]
        return jnp.concatenate([jnp.ravel(each) for each in free])

    def log_likelihood_of(arrays: Any, row: Any) -> Any:
        return _terms(program, arrays, bind(row[None]), 1)[0]

    targets, plain = _targets(program, columns, bind, rows[:2])
    outcome = _outcome(program, bind) if plain else None
    functions = log_likelihood, log_prior, values, vector, targets, log_likelihood_of, outcome
    return Density(columns, start, spread, *functions, sites=variables)


def _binding(model: Any, schema: Schema) -> tuple[tuple[str, ...], Callable[[Any], dict[str, Any]]]:
    """The columns that a model's arguments name, and how rows become those arguments."""
    known = {column.name for column in schema.columns}
    columns = list(model.x) + ([] if model.y is None else [model.y])
    arguments = []
    for name, argument in inspect.signature(model.model).parameters.items():
        if (name == "x" and model.x) or (name == "y" and model.y is not None):
            arguments.append(name)
        elif name in known:
            arguments.append(name)
            if name not in columns:
                columns.append(name)
        elif argument.default is inspect.Parameter.empty:
            raise ModelError(
                f"Expected argument {name!r} of the NumPyro model to be the name of a column, or "
                '"x" or "y" beside x=[...] and y=... of LogDensity. If it is a function of one '
                "record and no NumPyro model, write parameters={name: shape} too."
            )
    if not columns:
        raise ModelError(
            "Expected the NumPyro model to take columns by name, or x and y beside x=[...], y=...."
        )
    index = {name: i for i, name in enumerate(columns)}

    def bind(rows: Any) -> dict[str, Any]:
        found = {}
        for name in arguments:
            if name == "x" and model.x:
                found[name] = rows[:, : len(model.x)]
            else:
                column = model.y if name == "y" and model.y is not None else name
                found[name] = number_of(schema[column], rows[:, index[column]])
        return found

    return tuple(columns), bind


def _sites(program: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    import jax
    from numpyro import handlers

    found: dict[str, Any] = {}

    def run() -> None:
        seeded = handlers.seed(program, jax.random.key(0))
        found.update(handlers.trace(seeded).get_trace(**arguments))

    # Shapes, plates and supports are enough: nothing is computed, and nothing compiled.
    tried(run, (), "the NumPyro model, on one or two records,")
    return found


def _targets(
    program: Any, columns: tuple[str, ...], bind: Any, rows: Any
) -> tuple[tuple[str, ...], bool]:
    """The columns that are observed, and whether that is one column as it is."""
    import jax

    @jax.jit
    def observed(some: Any) -> list[Any]:
        from numpyro import handlers

        seeded = handlers.seed(program, jax.random.key(0))
        sites = handlers.trace(seeded).get_trace(**bind(some)).values()
        return [s["value"] for s in sites if s["type"] == "sample" and s["is_observed"]]

    before, found, plain = observed(rows[:1]), [], False
    for i, name in enumerate(columns):
        other = rows[:1].copy()
        other[0, i] = rows[1, i] if rows[1, i] != rows[0, i] else 1 - rows[0, i]
        after = observed(other)
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after)):
            found.append(name)
            plain = len(after) == 1 and np.array_equal(np.ravel(after[0]), other[:, i])
    return tuple(found), plain and len(found) == 1


def _outcome(program: Any, bind: Any) -> Callable[[Any, Any, Any], Any]:
    """The mean of what is observed of a record, and a draw of it."""
    import jax
    import jax.numpy as jnp
    from numpyro import handlers

    def outcome(values: Any, row: Any, key: Any) -> Any:
        given = handlers.substitute(handlers.seed(program, jax.random.key(0)), data=values)
        sites = handlers.trace(given).get_trace(**bind(row[None])).values()
        (law,) = [s["fn"] for s in sites if s["type"] == "sample" and s["is_observed"]]
        mean, drawn = jnp.ravel(law.mean), jnp.ravel(law.sample(key))
        return mean[0].astype(float), drawn[0].astype(float)

    return outcome


def _check_sites(one: Mapping[str, Any], two: Mapping[str, Any]) -> None:
    """One plate, over all records; latent variables outside of it, observations inside."""
    plates = _sizes(one), _sizes(two)
    over = [name for name, size in plates[0].items() if (size, plates[1].get(name)) == (1, 2)]
    if not over:
        raise ModelError(
            "Expected a NumPyro model with one plate over the records, got none: write "
            'with numpyro.plate("records", len(y)) around what is observed.'
        )
    if len(over) > 1:
        raise ModelError(
            f"Expected a NumPyro model with one plate over the records, got {', '.join(over)}: "
            "put all that is observed inside one of them."
        )
    (plate,) = over
    if set(one) != set(two):
        raise ModelError("Expected the same variables in the model however many records there are.")
    observed = False
    for name, site in one.items():
        if site["type"] == "param":
            raise ModelError(f"Expected no numpyro.param, got {name!r}: give it a prior.")
        if site["type"] != "sample":
            continue
        inside = [frame.name for frame in site["cond_indep_stack"]]
        if site["is_observed"]:
            observed = True
            if inside != [plate]:
                raise ModelError(
                    f"Expected {name!r} to be observed inside plate {plate!r} and no other."
                )
        elif plate in inside:
            raise ModelError(
                f"Expected global variables only, got {name!r} inside plate {plate!r}: sum or "
                "integrate it out, or pass what it is observed as (obs=...)."
            )
        elif site["fn"].support.is_discrete:
            raise ModelError(
                f"Expected variables with gradients, got the discrete {name!r}: sum over its "
                "values (dist.MixtureGeneral does), or give it a continuous prior."
            )
    if not observed:
        raise ModelError(f"Expected something observed inside plate {plate!r}: pass obs=y.")
    if all(site["type"] != "sample" or site["is_observed"] for site in one.values()):
        raise ModelError(
            "Expected a variable with a prior outside the plate: write "
            'base = numpyro.sample("base", dist.Normal(0, 2)) before it.'
        )


def _sizes(sites: Mapping[str, Any]) -> dict[str, int]:
    """Return the length of each plate."""
    found = {}
    for name, site in sites.items():
        if site["type"] == "plate":
            size, part = site["args"]
            if part not in (None, size):
                raise ModelError(
                    f"Expected plate {name!r} without subsample_size: the wall takes the batches."
                )
            found[name] = size
    return found


def _without_records(program: Any, sites: Mapping[str, Any]) -> Any:
    """The program without what it observes; Jacobians of its transformations stay."""
    from numpyro import handlers

    observed = [name for name, site in sites.items() if site.get("is_observed")]
    return handlers.block(program, hide=observed)


def _values(program: Any, arguments: Mapping[str, Any], key: Any) -> dict[str, Any]:
    from numpyro import handlers

    trace = handlers.trace(handlers.seed(program, key)).get_trace(**arguments)
    return {name: site["value"] for name, site in trace.items() if site["type"] == "sample"}


def _terms(program: Any, values: Any, arguments: Mapping[str, Any], rows: int) -> Any:
    """The log-probability of each row: of what is observed in it, at these values."""
    import jax
    import jax.numpy as jnp
    from numpyro import handlers

    given = handlers.substitute(handlers.seed(program, jax.random.key(0)), data=values)
    total = jnp.zeros(rows)
    for site in handlers.trace(given).get_trace(**arguments).values():
        if site["type"] != "sample" or not site["is_observed"]:
            continue
        term = site["fn"].log_prob(site["value"])
        if site["scale"] is not None:
            term = term * site["scale"]
        (dim,) = (frame.dim for frame in site["cond_indep_stack"])
        if jnp.ndim(term) < -dim:
            term = jnp.broadcast_to(term, (rows,) + (1,) * (-dim - 1))
        total = total + jnp.sum(jnp.moveaxis(term, dim, 0).reshape(term.shape[dim], -1), axis=1)
    return total


def _check_rows(terms: Any, vectors: list[Any], rows: Any) -> None:
    """A record's term must not depend on which record stands beside it."""
    for vector in vectors:
        alone = np.array([terms(vector, rows[i : i + 1])[0] for i in range(4)])
        for other in (1, 2, 3):
            pair = np.asarray(terms(vector, rows[np.array([0, other])]))
            expected = alone[[0, other]]
            if not np.allclose(pair, expected, rtol=1e-3, atol=1e-4, equal_nan=True):
                raise ModelError(
                    "Expected the NumPyro model to say the same of a record whatever the other "
                    "records are; with one and with two its terms differ. Do not use means, ranks "
                    "or the number of records in it."
                )


def _check_prior(prior: Any, bind: Any, layout: Layout, start: np.ndarray, rows: Any) -> None:
    import jax
    import jax.numpy as jnp
    from numpyro.infer.util import potential_energy

    arrays = layout.arrays(jnp.asarray(start))
    choices = (rows[:1], rows[1:2], rows[:2])
    energy = jax.jit(lambda some: potential_energy(prior, (), bind(some), arrays))
    energies = [float(energy(some)) for some in choices]
    if not np.allclose(energies, energies[0], rtol=1e-4, atol=1e-4):
        raise ModelError("Expected the priors of the NumPyro model not to depend on the records.")
