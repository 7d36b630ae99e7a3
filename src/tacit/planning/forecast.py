"""How wide intervals will be, and how often right: fits of simulated tables, before any data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.fitting import fit
from tacit.planning.guesses import Guess, Guessed
from tacit.posterior import Posterior
from tacit.public import Public
from tacit.spec.checks import whole_number
from tacit.spec.errors import InferenceWarning, ModelError
from tacit.spec.mechanisms import Exact
from tacit.spec.schema import Schema

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_DRAWS = {"draws": 400, "chains": 2}
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the epsilon that was asked for
# Okabe and Ito's, which all eyes can tell apart.
_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#e69f00", "#56b4e9", "#000000", "#999999"),
)
_LEAST, _MOST = 0.01, 20.0  # epsilons that are looked at for a given width
FEWEST_TO_COVER = 100  # tables from which a coverage is shown: with 20 it is off by 7 points
_MOST_UNITS = 10**9
_HALVINGS = 4  # of the interval in which such an epsilon is, after the first table


@dataclass(frozen=True)
class Forecast:
    """What simulated fits showed.

    Attributes
    ----------
    table
        A row for each epsilon and quantity: `half_width`, half the mean width of intervals;
        `error`, the root mean square of posterior mean less truth; `coverage`, the share of
        intervals that hold the truth, which is shown from 100 tables on: its standard error is
        `coverage_sd`. Epsilon inf is the fit without privacy noise, the best that
        can be had.
    n_units, level, repeats
        How many units the tables had, the probability of intervals, and the number of tables.
    assumptions
        Where the tables came from, in sentences.
    """

    table: pd.DataFrame
    n_units: int
    level: float
    repeats: int
    assumptions: tuple[str, ...]

    @property
    def coverage_sd(self) -> float:
        """The standard error of a coverage from `repeats` tables, where intervals are right."""
        return math.sqrt(self.level * (1 - self.level) / self.repeats)

    @property
    def quantities(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.table.index.get_level_values("quantity")))

    def half_widths(self, quantity: str | None = None) -> pd.Series:
        """Return half widths by epsilon: of one quantity, or of the widest of the main variable."""
        known = self.quantities
        if quantity is not None and quantity not in known:
            raise ModelError(f"No quantity {quantity!r}; there are {', '.join(known)}.")
        main = known[0].split("[")[0]
        chosen = [q for q in known if q.split("[")[0] == main] if quantity is None else [quantity]
        found = self.table["half_width"].unstack("quantity")
        return found[chosen].max(axis=1)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw half widths against epsilon, with the fit without noise beside them."""
        from matplotlib import pyplot as plt

        axes: Axes = plt.subplots(layout="constrained")[1] if ax is None else ax
        shown = self.table["half_width"].unstack("quantity")[list(self.quantities[:8])]
        finite = shown[np.isfinite(shown.index)]
        styles = ("o-", "s--", "^-.", "D:", "v-", "P--", "X-.", "*:")
        for (quantity, values), style, colour in zip(finite.items(), styles, _COLOURS):
            (line,) = axes.plot(finite.index, values, style, color=colour, label=str(quantity))
            if math.inf in shown.index:
                best = float(shown.loc[math.inf, quantity])
                axes.axhline(best, color=line.get_color(), linewidth=0.8, alpha=0.5)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        ticks = [float(e) for e in finite.index]
        axes.set_xticks(ticks, [f"{e:g}" for e in ticks])
        axes.minorticks_off()
        axes.set_xlabel("epsilon")
        axes.set_ylabel(f"half width of {100 * self.level:g}% intervals")
        axes.set_title(f"{self.n_units:,} units; thin lines: without privacy noise")
        axes.legend()
        return axes

    def __str__(self) -> str:
        few = self.repeats < FEWEST_TO_COVER
        shown = self.table.drop(columns="coverage") if few else self.table
        lines = [
            f"expected of {self.n_units:,} units, {100 * self.level:g}% intervals, "
            f"{self.repeats} simulated tables:",
            shown.reset_index().to_string(index=False, float_format=lambda value: f"{value:.3g}"),
        ]
        return "\n".join((*lines, *(f"assumed: {text}" for text in self.assumptions)))


def forecast(
    model: Any,
    schema: Schema,
    how: Any,
    *,
    n_units: int | None = None,
    guess: Guess = None,
    epsilons: Sequence[float] | None = None,
    repeats: int = 20,
    level: float = 0.9,
    seed: int = 0,
    sampling: Mapping[str, Any] | None = None,
) -> Forecast:
    """Return how wide intervals would be at several epsilons. Opens no data.

    Tables are drawn from a simulated population, fitted behind simulated noise, and compared with
    the fit of the whole population without noise.

    Parameters
    ----------
    model, schema, how
        As for `plan`.
    n_units
        About how many units there are, one row each. Default: the schema's max_units.
    guess
        What columns are about like, from what is public: for levels their shares,
        `{"ill": {"no": 0.9, "yes": 0.1}}`; for numbers `{"age": {"mean": 50, "sd": 15}}`, or the
        mean alone for counts (Poisson) and waiting times (exponential). Or a table of public or
        synthetic rows, whose columns may depend on each other. Columns that are not guessed are
        drawn anew for each table: shares evenly from all, means and standard deviations over the
        bounds.
    epsilons
        At which to look. Default: a quarter of what `how` has, up to four times as much.
    repeats, level, seed
        How many tables, the probability of intervals, and a seed for all of it.
    """
    runs = _Runs(model, schema, how, n_units, guess, repeats, level, seed, sampling)
    return runs.forecast(_epsilons_of(how) if epsilons is None else map(float, epsilons))


def epsilon_for(
    model: Any,
    schema: Schema,
    how: Any,
    half_width: float,
    *,
    quantity: str | None = None,
    **options: Any,
) -> float:
    """Return about how much epsilon makes intervals this narrow, rounded up to two digits."""
    if not half_width > 0:
        raise ModelError(f"Expected half_width={half_width} > 0, such as 0.02 for two points.")

    runs = _Runs(model, schema, how, **options)

    def widths(*epsilons: float) -> pd.Series:
        return runs.forecast(epsilons).half_widths(quantity)

    grid = np.geomspace(_LEAST, _MOST, 8)
    found = widths(*grid)
    if found[math.inf] > half_width:
        raise ModelError(
            f"No epsilon makes a half width of {half_width:g}: without privacy noise it is "
            f"{found[math.inf]:.3g}, for want of data. More units would help."
        )
    enough = [e for e in grid if found[e] <= half_width]
    if not enough:
        raise ModelError(
            f"Expected a half width of at least {found[grid[-1]]:.3g}, which epsilon {_MOST:g} "
            f"makes; {half_width:g} would need more."
        )
    high = float(min(enough))
    low = high if high == grid[0] else float(grid[list(grid).index(high) - 1])
    for _ in range(_HALVINGS if low < high else 0):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if widths(middle)[middle] <= half_width else (middle, high)
    digits = 1 - math.floor(math.log10(high))
    return round(math.ceil(high * 10**digits - 1e-9) / 10**digits, digits)


class _Runs:
    """Fits at any epsilon, of the same simulated tables."""

    def __init__(
        self,
        model: Any,
        schema: Schema,
        how: Any,
        n_units: int | None = None,
        guess: Guess = None,
        repeats: int = 20,
        level: float = 0.9,
        seed: int = 0,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        _check_identified(model)
        units = n_units or schema.max_units
        if not units:
            raise ModelError(
                "Expected n_units=, about how many there are: how wide intervals will be depends "
                "on it."
            )
        units = whole_number(units, "n_units", most=_MOST_UNITS)
        whole_number(repeats, "repeats", least=2, most=_MOST_UNITS)  # one table shows nothing
        self.model, self.schema, self.how, self.units = model, schema, how, int(units)
        self.repeats, self.level, self.seed = repeats, level, seed
        self.sampling = _DRAWS | {k: v for k, v in (sampling or {}).items() if v is not None}
        self.guess = Guessed(model, schema, guess)
        self.assumptions = self.guess.assumptions
        self._truths: list[dict[str, float]] = []
        self._tables: list[dict[str, Any]] = []
        self._seen: dict[float, pd.DataFrame] = {}
        population: dict[str, Any] | None = None
        for i in range(repeats):
            rng = np.random.default_rng([seed, i])
            if population is None or not self.guess.complete:
                population = self.guess.population(rng)
                truth = self._means(self._fitted(population, Exact(), i))
            rows = rng.integers(0, len(next(iter(population.values()))), self.units)
            self._tables.append({name: values[rows] for name, values in population.items()})
            self._truths.append(truth)

    def forecast(self, epsilons: Iterable[float]) -> Forecast:
        """Return a forecast for these epsilons, and for a fit without noise."""
        import pandas as pd

        asked = (*sorted(set(epsilons)), math.inf)
        for epsilon in asked:
            if epsilon not in self._seen:
                self._seen[epsilon] = self._at(epsilon)
        table = pd.concat({e: self._seen[e] for e in asked}, names=["epsilon", "quantity"])
        return Forecast(table, self.units, self.level, self.repeats, self.assumptions)

    def _at(self, epsilon: float) -> pd.DataFrame:
        import pandas as pd

        how = Exact() if math.isinf(epsilon) else at_epsilon(self.how, epsilon)
        widths, errors, covered = [], [], []
        for i, (table, truth) in enumerate(zip(self._tables, self._truths, strict=True)):
            posterior = self._fitted(table, how, i)
            true = np.array(list(truth.values()))
            mean = np.array(list(self._means(posterior).values()))
            ends = [posterior.interval(self.level, name) for name in _variables(posterior)]
            low, high = (np.concatenate([np.ravel(end[j]) for end in ends]) for j in (0, 1))
            widths.append((high - low) / 2)
            errors.append((mean - true) ** 2)
            covered.append((low <= true) & (true <= high))
        return pd.DataFrame(
            {
                "half_width": np.mean(widths, axis=0),
                "error": np.sqrt(np.mean(errors, axis=0)),
                "coverage": np.mean(covered, axis=0),
            },
            index=pd.Index(self._truths[0], name="quantity"),
        )

    def _fitted(self, table: Mapping[str, Any], how: Any, i: int) -> Posterior:
        rows = len(next(iter(table.values())))
        schema = self.schema
        owner = {} if schema.unit is None else {schema.unit: np.arange(rows)}
        public = Public({**table, **owner}, schema, seed=self.seed * 10_007 + i)
        given = {"seed": i, "progress": False, **self.sampling}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InferenceWarning)
            try:
                return fit(self.model, public, how, **given)
            except ModelError as error:
                if not str(error).startswith("Expected no draws="):
                    raise
                for what in ("draws", "chains"):  # as many as are paid for
                    given.pop(what, None)
                    self.sampling.pop(what, None)
                return fit(self.model, public, how, **given)

    def _means(self, posterior: Posterior) -> dict[str, float]:
        found = {}
        for name in _variables(posterior):
            labels = [name]
            for dim in posterior.dims[name]:
                labels = [f"{label}[{each}]" for label in labels for each in posterior.coords[dim]]
            found |= dict(zip(labels, np.ravel(posterior.mean(name)).tolist(), strict=True))
        return found


def at_epsilon(how: Any, epsilon: float) -> Any:
    """Return the same way to spend, at another epsilon."""
    if getattr(how, "epsilon", None) is None:
        raise ModelError(
            "Expected a way to spend that says its epsilon, such as tacit.Laplace(0.5), not "
            f"{how!r}."
        )
    return replace(how, epsilon=f"{epsilon:.6g}")


def _epsilons_of(how: Any) -> list[float]:
    at_epsilon(how, 1.0)
    return [float(f"{factor * float(how.epsilon):.3g}") for factor in _FACTORS]


def _check_identified(model: Any) -> None:
    """Refuse models with hidden states: parts of theirs may come in any order."""
    hidden = hasattr(model, "state_chain") or (
        hasattr(model, "variational") and not hasattr(model, "derivatives")
    )
    if hidden or not hasattr(type(model), "__dataclass_fields__"):
        raise ModelError(
            f"{type(model).__name__} has hidden states whose order is arbitrary: its accuracy is "
            "not forecast, only its cost. Fit simulated rows behind tacit.Public to see it."
        )


def _variables(posterior: Posterior) -> list[str]:
    """Variables of the model: not the number of rows, nor what a fit without noise has not."""
    return [name for name in posterior.draws if name not in ("rows", "log_evidence")]
