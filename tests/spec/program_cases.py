"""Functions of one row that together use every operation a program may have."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from tacit.spec.errors import QueryError
from tacit.spec.programs import Program, trace

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.extend.core.primitives import eq_to_p  # noqa: E402
from jax.scipy import special, stats  # noqa: E402

THETA = np.array([0.3, -1.2, 0.7, 0.1, 2.0, -0.4], np.float32)
KEY = np.array([7, 11], np.uint32)
ROWS = (np.sin(np.arange(64 * 6).reshape(64, 6) * 1.7) * 3).astype(np.float32)


def _matrix(row: Any) -> Any:
    return jnp.eye(3) * 4 + jnp.outer(row[:3], row[3:]) / 9


def _spd(row: Any) -> Any:
    return jnp.eye(3) * 4 + jnp.outer(row[:3], row[:3])


def _logistic(theta: Any, row: Any) -> Any:
    z = row[:5] @ theta[:5] + theta[5]
    return jax.nn.log_sigmoid(jnp.where(row[5] > 0, z, -z))


def _negative_binomial(theta: Any, row: Any) -> Any:
    y = jnp.floor(jnp.abs(row[5]) * 4)
    mean, size = jnp.exp(row[:4] @ theta[:4]), jnp.exp(theta[5])
    return (
        special.gammaln(y + size)
        - special.gammaln(size)
        - special.gammaln(y + 1)
        + size * jnp.log(size / (size + mean))
        + special.xlogy(y, mean / (size + mean))
    )


def _mixture(theta: Any, row: Any) -> Any:
    parts = stats.norm.logpdf(row[0], theta[:3], jnp.exp(theta[3:]))
    return special.logsumexp(parts + jax.nn.log_softmax(theta[3:]))


def _von_mises(theta: Any, row: Any) -> Any:
    return stats.vonmises.logpdf(row[0], jnp.exp(theta[0])) + jnp.log(special.i1e(theta[4] ** 2))


def _student(theta: Any, row: Any) -> Any:
    return stats.t.logpdf(row, jnp.exp(theta[0]) + 2, theta[1], jnp.exp(theta[2])).sum()


def _gradient(log_likelihood: Any) -> Any:
    return lambda row, theta: jax.grad(log_likelihood)(theta, row)


def _scan(row: Any, theta: Any) -> Any:
    weights = np.arange(36, dtype=np.float32).reshape(6, 6) / 40  # a constant inside the loop

    def forward(carry: Any, x: Any) -> Any:
        carry = jnp.tanh(weights @ carry + x)
        return carry, carry.sum()

    last, sums = lax.scan(forward, theta, row)
    return jnp.concatenate([last, sums])


def _newton(row: Any, theta: Any) -> Any:
    def again(carry: Any) -> Any:
        return (carry[0] < 50) & (jnp.abs(carry[1] ** 3 - row[0]) > 1e-4)

    def round_(carry: Any) -> Any:
        step, x = carry
        return step + 1, x - (x**3 - row[0]) / (3 * x**2 + 0.1)

    return jnp.stack(lax.while_loop(again, round_, (0.0, theta[4] + 1.0)))


def _solved(row: Any, theta: Any) -> Any:
    return jnp.linalg.solve(_matrix(row), theta[:3])


def _indexed(row: Any, theta: Any) -> Any:
    i = jnp.abs(row[:2]).astype(jnp.int32)
    out = jnp.zeros(6).at[i].add(row[2:4]).at[i[0]].multiply(2.0).at[i[1]].max(theta[0])
    return out.at[0].set(row[4]).at[1].min(row[5]).at[2].subtract(1.0) + theta[i].sum()


def _branches(row: Any, theta: Any) -> Any:
    table = np.array([1.0, 2.0, 4.0], np.float32)
    chosen = lax.cond(row[0] > 0, lambda x: jnp.sin(x).sum(), lambda x: (table * x[:3]).sum(), row)
    which = jnp.abs(row[1]).astype(jnp.int32)
    more = lax.switch(which, [jnp.sin, jnp.cos, lambda x: x * 2], theta)
    return jnp.select([row[0] > 1, row[0] > 0], [chosen, -chosen], 0.0) + more


def _counts(row: Any, theta: Any) -> Any:
    level = jnp.clip(row[0].astype(jnp.int32), 0, 3)
    return jnp.outer(jax.nn.one_hot(level, 4), theta[:2]) + jnp.argmax(row) % 3


def _keyed(row: Any, state: Any) -> Any:
    key = jax.random.fold_in(jax.random.wrap_key_data(state["key"]), jnp.int32(row[0] > 0))
    first, second = jax.random.split(key)
    noise = jax.random.normal(first, (6,)) + jax.random.randint(second, (6,), 0, 9)
    old = jax.random.uniform(jax.random.PRNGKey(3), (6,))
    return row * state["scale"] + noise + jax.random.bernoulli(jax.random.key(1)) + old


def _checkpointed(theta: Any, row: Any) -> Any:
    return jax.checkpoint(lambda t: jnp.sin(jnp.sin(t) * row).sum())(theta)


@jax.custom_vjp
def _clipped(x: Any) -> Any:
    return x


_clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))


_ONE = """abs acos asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf
    erf_inv erfc exp exp2 expm1 floor is_finite lgamma log log1p logistic neg round rsqrt sign
    sin sinh sqrt square tan tanh"""
_TWO = "add atan2 div eq ge gt le lt ne max min mul nextafter pow rem sub"
_BITS = "bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic mulhi"


def _all_elementwise(row: Any, theta: Any) -> Any:
    x = jax.nn.sigmoid(row)
    parts = [getattr(lax, name)(x).astype(row.dtype) for name in _ONE.split()]
    parts += [getattr(lax, name)(x, theta).astype(row.dtype) for name in _TWO.split()]
    whole = (row * 100).astype(jnp.int32)
    parts += [getattr(lax, n)(whole, jnp.abs(whole) % 9).astype(row.dtype) for n in _BITS.split()]
    parts += [getattr(lax, n)(whole).astype(row.dtype) for n in ("population_count", "clz")]
    parts += [lax.acosh(x + 1), (~whole).astype(row.dtype), lax.reduce_precision(row, 5, 7)]
    parts += [lax.clamp(-1.0, row, 1.0), lax.stop_gradient(row), lax.integer_pow(row, -3)]
    parts += [lax.bitcast_convert_type(lax.bitcast_convert_type(row, np.int32), np.float32)]
    return jnp.concatenate(parts)


def _all_shapes(row: Any, theta: Any) -> Any:
    square = row.reshape(3, 2)
    whole = (row * 10).astype(jnp.int32)
    parts = [
        *(jnp.cumsum(row), jnp.cumprod(row), lax.cummax(row), lax.cummin(row)),
        *(lax.cumlogsumexp(row), jnp.sort(row), jnp.flip(row), jnp.tile(row, 2)),
        *(jnp.argsort(row), jnp.median(row), lax.sort((whole, row), num_keys=2)[1]),
        *(jnp.stack([row, theta]), jnp.unstack(square)[0], jnp.split(row, 2)[1], square.T),
        *(jnp.pad(row, (1, 2)), lax.top_k(row, 2)[0], jnp.linspace(0, row[0], 5), row[::2]),
        *(jnp.prod(row), jnp.max(row), jnp.min(row), jnp.all(row > 0), jnp.any(row > 0)),
        *(lax.reduce_xor(whole, (0,)), jnp.argmin(row), jnp.var(row), jnp.squeeze(row[None])),
        *(lax.dynamic_slice(row, (whole[0],), (2,)), jnp.roll(row, 1)),
        lax.dynamic_update_slice(row, theta[:2], (whole[0],)),
        *(jnp.interp(row[0], theta, row), jnp.searchsorted(theta, row), jnp.convolve(row, theta)),
        *(lax.reduce_window(row, 0.0, lax.add, (2,), (1,), "SAME"), jnp.einsum("i,j->", row, row)),
        lax.reduce_window(row, -jnp.inf, lax.max, (2,), (1,), "SAME"),
        lax.reduce_window(row, jnp.inf, lax.min, (2,), (1,), "SAME"),
        *lax.optimization_barrier((row, theta)),
        *(jnp.real(jnp.fft.fft(row)), jnp.imag(jnp.conj(jnp.fft.rfft(row) + 1j))),
        *(jnp.take(row, whole, mode="fill"), jnp.take(row, whole, mode="fill", fill_value=2.5)),
        jnp.searchsorted(theta, row, side="right"),
        *(eq_to_p.bind(row, theta), jnp.abs(lax.complex(row, theta))),
        *(jnp.take(row, whole, mode="clip"), jnp.copy(row), jax.device_put(theta)),
    ]
    return jnp.concatenate([jnp.ravel(part).astype(row.dtype) for part in parts])


def _all_matrices(row: Any, theta: Any) -> Any:
    spd = _spd(row)
    parts = [
        *(jnp.linalg.cholesky(spd), jnp.linalg.eigvalsh(spd), jnp.linalg.inv(_matrix(row))),
        *(jnp.linalg.svd(spd)[1], jnp.linalg.qr(_matrix(row))[1], jnp.linalg.det(_matrix(row))),
        jax.scipy.linalg.solve_triangular(spd, theta[:3], lower=True),
        jnp.matmul(spd, spd, precision="highest"),
        lax.linalg.tridiagonal_solve(row, row + 9, row, theta[:, None]),
        jnp.linalg.slogdet(spd)[1],
        jax.scipy.linalg.expm(_matrix(row) / 9),
        jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(_matrix(row)), theta[:3]),
    ]
    return jnp.concatenate([jnp.ravel(part) for part in parts])


def _all_loops(row: Any, theta: Any) -> Any:
    x, u = jax.nn.softplus(row) + 0.1, jax.nn.sigmoid(theta)
    key = jax.random.key(5)
    parts = [
        *(lax.betainc(x, x, u), lax.zeta(x + 1.5, x)),
        *(lax.polygamma(jnp.ones_like(x), x), jax.random.gamma(key, x)),
        jax.random.poisson(key, 3.0, (2,)).astype(row.dtype),
        jax.random.key_data(key).astype(row.dtype),
        lax.fori_loop(0, whole := jnp.abs(row[0]).astype(jnp.int32), lambda i, c: c * 0.5, x),
        whole[None].astype(row.dtype),
    ]
    return jnp.concatenate(parts)


def _threefry(row: Any, theta: Any) -> Any:
    from jax.extend.random import threefry_2x32

    words = jnp.arange(6, dtype=jnp.uint32) + (row[0] > 0)
    return threefry_2x32(jnp.asarray(KEY), words).astype(jnp.float32)


CASES: dict[str, tuple[Any, Any]] = {
    "logistic": (_gradient(_logistic), THETA),
    "negative binomial": (_gradient(_negative_binomial), THETA),
    "mixture": (_gradient(_mixture), THETA),
    "von Mises": (_gradient(_von_mises), THETA),
    "Student": (_gradient(_student), THETA),
    "Hessian": (lambda row, t: jax.hessian(_student)(t, row), THETA),
    "scan": (_scan, THETA),
    "gradient of scan": (_gradient(lambda t, row: _scan(row, t).sum()), THETA),
    "while": (_newton, THETA),
    "solve": (_solved, THETA),
    "gradient of solve": (_gradient(lambda t, row: _solved(row, t).sum()), THETA),
    "gradient of cholesky": (
        lambda row, t: jax.grad(lambda r: jnp.linalg.cholesky(_spd(r)).sum())(row),
        THETA,
    ),
    "indices": (_indexed, THETA),
    "gradient of indices": (_gradient(lambda t, row: _indexed(row, t).sum()), THETA),
    "branches": (_branches, THETA),
    "counts": (_counts, THETA),
    "keys": (_keyed, {"scale": np.float32(2), "key": KEY}),
    "checkpoint": (_gradient(_checkpointed), THETA),
    "custom_vjp": (_gradient(lambda t, row: (_clipped(t * row) ** 2).sum()), THETA),
    "elementwise": (_all_elementwise, THETA),
    "shapes": (_all_shapes, THETA),
    "matrices": (_all_matrices, THETA),
    "loops": (_all_loops, THETA),
    "threefry": (_threefry, THETA),
    "no state": (lambda row, _: row[0] ** 2 + row, None),
    "constant": (lambda row, _: np.ones(2, np.float32), None),
}


@cache
def traced(name: str) -> Program:
    function, state = CASES[name]
    return trace(function, 6, state)


def one_sentence(error: Exception) -> None:
    text = str(error)
    assert type(error) is QueryError
    assert len(text) < 400
    assert "\n" not in text
    assert text.startswith("Expected ")
    assert text.endswith("Nothing was charged or read.")
