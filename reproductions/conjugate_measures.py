"""The paper's experiments on a success probability, with its settings. All data are simulated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from conjugate_laws import (
    LatentCounts,
    discrete_laplace,
    kl_beta,
    log_beta,
    log_partition,
    mean_given_draw,
    projected_counts,
    quadrature,
    temperature,
    tempered_draw,
)
from scipy.special import betainccinv, betaincinv, polygamma

import tacit
from tacit.testing import simulated_release

MEAN, DRAW = "no privacy: mean", "no privacy: draw"
LAPLACE_MEAN, LAPLACE_DRAW = "paper: Laplace, mean", "paper: Laplace, draw"
OPS = "paper: one posterior draw (OPS)"
OURS, OURS_DRAW = "Tacit: noise-aware mean", "Tacit: noise-aware draw"
OURS_OPS = "Tacit: mean given the OPS draw"
METHODS = (MEAN, DRAW, LAPLACE_MEAN, LAPLACE_DRAW, OPS, OURS, OURS_DRAW, OURS_OPS)


@dataclass(frozen=True)
class Setting:
    """True probability (or one for each repeat), privacy and truncation of one experiment."""

    p: float | np.ndarray
    epsilon: float
    truncation: float

    @property
    def temperature(self) -> float:
        return temperature(self.epsilon, self.truncation)


FIGURE1 = Setting(p=0.3, epsilon=1.0, truncation=0.2)
FIGURE2 = Setting(p=0.1, epsilon=0.1, truncation=0.05)


def estimates(
    setting: Setting,
    n: int,
    repeats: int,
    rng: np.random.Generator,
    only: tuple[str, ...] = METHODS,
) -> dict[str, np.ndarray]:
    """Every method's estimate of p, from the same data sets."""
    s = rng.binomial(n, setting.p, repeats)
    yes, no = projected_counts(rng, s, n, setting.epsilon)
    ops = tempered_draw(rng, s, n, setting.temperature, setting.truncation)
    seen = s + discrete_laplace(rng, 1 / setting.epsilon, repeats)
    latent = LatentCounts.given(seen, n, 1 / setting.epsilon)
    found = {
        MEAN: (s + 1) / (n + 2),
        DRAW: rng.beta(s + 1, n - s + 1),
        LAPLACE_MEAN: (yes + 1) / (yes + no + 2),
        LAPLACE_DRAW: rng.beta(yes + 1, no + 1),
        OPS: ops,
        OURS: latent.posterior_mean,
        OURS_DRAW: latent.draw(rng),
    }
    if OURS_OPS in only:
        found[OURS_OPS] = mean_given_draw(ops, n, setting.temperature, setting.truncation)
    return found


@dataclass(frozen=True)
class Curves:
    """A mean over repeats and its standard error, for each method and n."""

    setting: Setting
    ns: np.ndarray
    repeats: int
    mean: dict[str, np.ndarray]
    error: dict[str, np.ndarray]


def l1_errors(ns: np.ndarray, repeats: int) -> Curves:
    """Figure 2: |estimate - p|."""
    return _curves(FIGURE2, ns, repeats, lambda gap, n: np.abs(gap), seed=2)


def efficiencies(epsilon: float, ns: np.ndarray, repeats: int) -> Curves:
    """Table 1: squared error over the smallest one that is possible, p (1 - p) / n."""
    setting = replace(FIGURE1, epsilon=epsilon)
    best = setting.p * (1 - setting.p)
    return _curves(setting, ns, repeats, lambda gap, n: n * gap**2 / best, seed=3)


def _curves(setting, ns, repeats, measure, seed) -> Curves:  # type: ignore[no-untyped-def]
    mean = {name: np.empty(len(ns)) for name in METHODS}
    error = {name: np.empty(len(ns)) for name in METHODS}
    for i, n in enumerate(ns):
        rng = np.random.default_rng([seed, round(1000 * setting.epsilon), int(n)])
        for name, values in estimates(setting, int(n), repeats, rng).items():
            value = measure(values - setting.p, n)
            mean[name][i] = value.mean()
            error[name][i] = value.std(ddof=1) / np.sqrt(repeats)
    return Curves(setting, ns, repeats, mean, error)


def overtaking(repeats: int, most: int = 40) -> dict[str, int | None]:
    """The n from which on the Laplace mechanism is better than OPS, by two standard errors.

    None if it is not at `most`, where the search ends.
    """
    clear = {LAPLACE_DRAW: np.zeros(most, bool), LAPLACE_MEAN: np.zeros(most, bool)}
    for n in range(1, most + 1):
        found = estimates(FIGURE2, n, repeats, np.random.default_rng([4, n]), only=(OPS, *clear))
        for name, at in clear.items():
            gain = np.abs(found[OPS] - FIGURE2.p) - np.abs(found[name] - FIGURE2.p)
            at[n - 1] = gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(repeats)
    behind = {name: int(np.flatnonzero(~np.append(False, at))[-1]) for name, at in clear.items()}
    return {name: None if last == most else last + 1 for name, last in behind.items()}


def prior_errors(ns: np.ndarray, repeats: int) -> dict[str, np.ndarray]:
    """Root mean squared error in the setting of Figure 2, but with p drawn from the prior."""
    found = {name: np.empty(len(ns)) for name in METHODS}
    for i, n in enumerate(map(int, ns)):
        rng = np.random.default_rng([8, n])
        p = rng.random(repeats)
        for name, values in estimates(replace(FIGURE2, p=p), n, repeats, rng).items():
            found[name][i] = np.sqrt(np.mean((values - p) ** 2))
    return found


def posterior_widths(epsilon: float, n: int, repeats: int) -> dict[str, float]:
    """n Var(p | what is released) / (p (1 - p)): the width of the posteriors themselves."""
    setting = replace(FIGURE1, epsilon=epsilon)
    rng = np.random.default_rng([5, n])
    s = rng.binomial(n, setting.p, repeats)
    yes, no = projected_counts(rng, s, n, epsilon)
    temperature = setting.temperature
    best = setting.p * (1 - setting.p) / n
    return {
        "no privacy": float(_beta_variance(s + 1, n - s + 1).mean() / best),
        "paper: Laplace": float(_beta_variance(yes + 1, no + 1).mean() / best),
        "paper: OPS": float(
            _beta_variance(s / temperature + 1, (n - s) / temperature + 1).mean() / best
        ),
    }


def _beta_variance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a * b / ((a + b) ** 2 * (a + b + 1))


@dataclass(frozen=True)
class Attack:
    """The cost of one draw from the posterior of the adversary's data, and of balanced data."""

    cost: np.ndarray
    balanced: np.ndarray
    bound: float


def adversary(relation: str, most: int, truncation: float = 0.1) -> Attack:
    """Supplement, Figure 1: data are added one by one, each making the draw as costly as it can."""

    @cache
    def log_z(s: int, f: int) -> float:
        return float(log_partition(s + 1.0, f + 1.0, truncation)[0])

    def cost(s: int, f: int) -> float:
        """The largest log ratio; it is monotone in p, hence largest at an end."""
        moves = [(1, -1), (-1, 1)]
        if relation == "add_remove":
            moves = [(1, 0), (0, 1), (-1, 0), (0, -1)]
        ends = ((truncation, 1 - truncation), (1 - truncation, truncation))
        return max(
            abs(up * np.log(p) + down * np.log(q) - log_z(s + up, f + down) + log_z(s, f))
            for up, down in moves
            for p, q in ends
            if s + up >= 0 and f + down >= 0
        )

    data, found = (0, 0), []
    for _ in range(most):
        s, f = data
        data = max((s, f + 1), (s + 1, f), key=lambda counts: round(cost(*counts), 9))
        found.append(cost(*data))
    balanced = [cost(n // 2, n - n // 2) for n in range(1, most + 1)]
    ratio = np.log((1 - truncation) / truncation)
    bound = ratio if relation == "add_remove" else 2 * ratio
    return Attack(np.array(found), np.array(balanced), float(bound))


@dataclass(frozen=True)
class Divergences:
    """KL divergences, shape (n, repeat): from the private posterior to the true one, and back."""

    ns: np.ndarray
    paper: np.ndarray
    ours: np.ndarray
    paper_back: np.ndarray
    ours_back: np.ndarray


def divergences(ns: np.ndarray, repeats: int) -> Divergences:
    """Lemma 1, in the setting of Figure 2."""
    found = np.empty((4, len(ns), repeats))
    for i, n in enumerate(map(int, ns)):
        rng = np.random.default_rng([6, n])
        s = rng.binomial(n, FIGURE2.p, repeats)
        true = (s + 1.0, n - s + 1.0)
        yes, no = projected_counts(rng, s, n, FIGURE2.epsilon)
        found[0, i] = kl_beta(yes + 1, no + 1, *true)
        found[2, i] = kl_beta(*true, yes + 1, no + 1)
        scale = 1 / FIGURE2.epsilon
        latent = LatentCounts.given(s + discrete_laplace(rng, scale, repeats), n, scale)
        found[1, i], found[3, i] = _mixture_divergences(latent, *true)
    return Divergences(ns, *found)


def _mixture_divergences(
    latent: LatentCounts, alpha: np.ndarray, beta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """KL(mixture || Beta) and KL(Beta || mixture) for each repeat, on a grid of p."""
    first, last = latent.support[0], latent.support[-1]
    low = betaincinv(first + 1, latent.n - first + 1, 1e-16)
    high = betainccinv(last + 1, latent.n - last + 1, 1e-16)
    p, width = quadrature(low, high)
    mixture = latent.density(p)[latent.row]
    log_mixture = np.log(np.maximum(mixture, 1e-300))
    log_true = log_beta(p, alpha, beta)
    gap = log_mixture - log_true
    return (mixture * gap) @ width, -(np.exp(log_true) * gap) @ width


def lemma5_broken(n: int, repeats: int) -> tuple[float, float]:
    """How often KL exceeds the supplement's bound D_N |noise|, and the corrected D_N |noise|^2 / 2.

    D_N is the largest norm of the covariance of (log p, log(1 - p)) on the way from the true
    parameters to the noisy ones. Noise that would be projected is left out.
    """
    rng = np.random.default_rng([7, n])
    s = rng.binomial(n, FIGURE1.p, repeats)
    noise = rng.laplace(scale=2 / FIGURE1.epsilon, size=(2, repeats))
    kept = (s + noise[0] >= 0) & (n - s + noise[1] >= 0)
    true, noise = np.stack([s + 1.0, n - s + 1.0])[:, kept], noise[:, kept]
    norm = np.zeros(kept.sum())
    for t in np.linspace(0, 1, 101):
        a, b = true + t * noise
        both = polygamma(1, a + b)
        x, y = polygamma(1, a) - both, polygamma(1, b) - both
        norm = np.maximum(norm, (x + y + np.hypot(x - y, 2 * both)) / 2)
    kl = kl_beta(*(true + noise), *true)
    size = np.hypot(*noise)
    return float((kl > norm * size).mean()), float((kl > norm * size**2 / 2).mean())


def check_against_tacit(draws: int = 40_000) -> list[tuple[int, float, float, float, float, float]]:
    """Rows of n, epsilon, noisy count, enumerated mean, Tacit's, their gap in standard errors."""
    rows = []
    column = tacit.Categorical("x", ["no", "yes"], default="no")
    schema = tacit.Schema(column, neighbours="replace_one")
    model = tacit.BetaBernoulli("x", success="yes")
    cases = [(1, 0.1, 7), (20, 1.0, 6), (20, 1.0, -2), (100, 0.1, -15), (100, 0.1, 31)]
    cases += [(1000, 0.1, 90), (100_000, 0.1, 10_040)]
    for seed, (n, epsilon, seen) in enumerate(cases):
        release = simulated_release(schema, model.query(), tacit.Laplace(epsilon), [0], n)
        release = replace(release, integers=np.array([seen]))  # the same noise in every run
        p = model.posterior(release, draws=draws, chains=1, seed=seed).draws["p"].ravel()
        mean = LatentCounts.given(np.array([seen]), n, 1 / epsilon).posterior_mean[0]
        gap = (p.mean() - mean) / (p.std() / np.sqrt(draws))
        rows.append((n, epsilon, seen, float(mean), float(p.mean()), float(gap)))
    return rows
