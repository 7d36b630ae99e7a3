"""How wide intervals will be, and how often right: fits of simulated tables, before any data."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tacit.fitting import fit
from tacit.posterior import Posterior
from tacit.public import Public
from tacit.spec.budget import Budget
from tacit.spec.columns import Categorical, Column, Integer, Real, Time
from tacit.spec.errors import InferenceWarning, ModelError
from tacit.spec.mechanisms import Exact, Gaussian, Laplace
from tacit.spec.periods import period_begin
from tacit.spec.schema import Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POPULATION = 20_000  # rows that stand for a population; tables are drawn from them
_DRAWS = {"draws": 400, "chains": 2}
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the epsilon that was asked for
# Okabe and Ito's, which all eyes can tell apart.
_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    *("#e69f00", "#56b4e9", "#000000", "#999999"),
)
_LEAST, _MOST = 0.01, 20.0  # epsilons that are looked at for a given width
_HALVINGS = 4  # of the interval in which such an epsilon is, after the first table

Guess = Mapping[str, Any] | pd.DataFrame | None


@dataclass(frozen=True)
class Forecast:
    """What simulated fits showed.

    Attributes
    ----------
    table
        A row for each epsilon and quantity: `half_width`, half the mean width of intervals;
        `error`, the root mean square of posterior mean less truth; `coverage`, the share of
        intervals that hold the truth. Epsilon inf is the fit without privacy noise, the best that
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
        lines = [
            f"expected of {self.n_units:,} units, {100 * self.level:g}% intervals, "
            f"{self.repeats} simulated tables:",
            self.table.reset_index().to_string(
                index=False, float_format=lambda value: f"{value:.3g}"
            ),
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
        made-up rows, whose columns may depend on each other. Columns that are not guessed are drawn
        anew for each table: shares evenly from all, means and standard deviations over the bounds.
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
        if repeats < 2:
            raise ModelError(f"Expected repeats={repeats} >= 2: one table shows nothing.")
        self.model, self.schema, self.how, self.units = model, schema, how, int(units)
        self.repeats, self.level, self.seed = repeats, level, seed
        self.sampling = _DRAWS | {k: v for k, v in (sampling or {}).items() if v is not None}
        self.guess = _Guess(model, schema, guess)
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
        """What is seen at these epsilons, and without noise."""
        asked = (*sorted(set(epsilons)), math.inf)
        for epsilon in asked:
            if epsilon not in self._seen:
                self._seen[epsilon] = self._at(epsilon)
        table = pd.concat({e: self._seen[e] for e in asked}, names=["epsilon", "quantity"])
        return Forecast(table, self.units, self.level, self.repeats, self.assumptions)

    def _at(self, epsilon: float) -> pd.DataFrame:
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


class _Guess:
    """What a population is like: rows that are given, or columns that are drawn one by one."""

    def __init__(self, model: Any, schema: Schema, guess: Guess) -> None:
        self._schema, self._guess = schema, guess
        names = [column.name for column in schema.columns]
        asked = [name for name in names if name in _names_in(model)]
        rows = isinstance(guess, pd.DataFrame)
        given = list(guess.columns) if rows else list(guess or {})
        unknown = [name for name in given if name not in names and not rows]
        if unknown:
            raise ModelError(f"No column {unknown[0]!r} to guess; there are {', '.join(names)}.")
        missing = [name for name in asked if name not in given]
        if rows and missing:
            raise ModelError(f"Expected a column {missing[0]!r} in the guessed rows.")
        self.complete = not missing
        self._waits = type(model).__name__ in ("GammaPoisson", "GammaExponential")
        listed = ", ".join(missing)
        texts = []
        if rows:
            texts.append(f"tables are drawn from {len(guess)} guessed rows")
        elif given:
            texts.append(f"the guesses of {', '.join(given)}, in independent columns")
        if missing:
            texts.append(f"nothing about {listed}: drawn anew for each table, independent")
        self.assumptions = tuple(texts)

    def population(self, rng: np.random.Generator) -> dict[str, Any]:
        """The rows of a population, by column."""
        if isinstance(self._guess, pd.DataFrame):
            frame = self._guess
            known = {str(name): frame[name].to_numpy() for name in frame.columns}
            rows = len(frame)
        else:
            known, rows = {}, _POPULATION
        spoken = {} if isinstance(self._guess, pd.DataFrame) else dict(self._guess or {})
        return {
            column.name: known[column.name]
            if column.name in known
            else self._column(column, spoken.get(column.name), rows, rng)
            for column in self._schema.columns
        }

    def _column(self, column: Column, guess: Any, rows: int, rng: np.random.Generator) -> Any:
        match column:
            case Categorical() | Time():
                labels = column.labels
                shares = _shares(column.name, labels, guess, rng)
                # As evenly as whole rows allow, so that a guess of .1 is .1.
                ends = np.rint(np.cumsum(shares) * rows).astype(int)
                codes = np.searchsorted(ends, np.arange(rows), side="right")
                cells = _begins(column) if isinstance(column, Time) else list(labels)
                chosen = np.minimum(codes, len(labels) - 1)
                return np.array(cells, dtype=object)[rng.permutation(chosen)]
            case Integer() | Real():
                return self._numbers(column, guess, rows, rng)
        return np.full(rows, "", dtype=object)  # no model that is forecast reads documents

    def _numbers(
        self, column: Integer | Real, guess: Any, rows: int, rng: np.random.Generator
    ) -> np.ndarray:
        low, high = float(column.low), float(column.high)
        width, whole = high - low, isinstance(column, Integer)
        if guess is None:
            mean, sd = low + width * rng.uniform(0.25, 0.75), width * rng.uniform(0.05, 0.2)
            if self._waits:
                mean, sd = low + width * rng.uniform(0.1, 0.4), None
        else:
            mean, sd = _mean_and_sd(column.name, guess)
            if not low <= mean <= high:
                raise ModelError(f"Expected a mean of {column.name!r} within its bounds.")
        if sd is None:
            values = rng.poisson(mean, rows) if whole else rng.exponential(mean, rows)
            return values.astype(float)  # beyond the cap: missing, as the model has it
        values = np.clip(mean + sd * rng.standard_normal(rows), low, high)
        return np.rint(values) if whole else values


def at_epsilon(how: Any, epsilon: float) -> Any:
    """Return the same way to spend, at another epsilon."""
    number = f"{epsilon:.6g}"
    match how:
        case Laplace():
            return Laplace(number)
        case Gaussian(epsilon=known) if known is not None:
            return Gaussian(number, how.delta)
        case Budget():
            return Budget(number, how.delta)
        case _ if getattr(how, "epsilon", None) is not None:
            return replace(how, epsilon=number)
    raise ModelError(
        f"Expected a way to spend that says its epsilon, such as tacit.Laplace(0.5), not {how!r}."
    )


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


def _names_in(model: Any) -> set[str]:
    """All texts among the options of a model: the names of its columns are among them."""

    def texts(value: Any) -> set[str]:
        match value:
            case str():
                return {value}
            case Mapping():
                return set().union(*(texts(v) for v in (*value.keys(), *value.values())))
            case tuple() | list():
                return set().union(*(texts(v) for v in value))
        return set()

    return set().union(*(texts(getattr(model, field.name)) for field in fields(model)))


def _shares(name: str, labels: Sequence[Any], guess: Any, rng: np.random.Generator) -> np.ndarray:
    if guess is None:
        return rng.dirichlet(np.ones(len(labels)))
    if isinstance(guess, Mapping):
        texts = {str(label): label for label in labels}
        given = {texts.get(str(key), key): value for key, value in guess.items()}
        unknown = [key for key in given if key not in labels]
        if unknown:
            raise ModelError(f"No level {unknown[0]!r} of {name!r} to guess a share of.")
        shares = np.array([float(given.get(label, 0.0)) for label in labels])
    else:
        shares = np.array(guess, dtype=float)
    whole = shares.shape == (len(labels),) and np.all(shares >= 0)
    if not whole or abs(shares.sum() - 1) > 0.01:
        raise ModelError(
            f"Expected shares of the levels of {name!r} that sum to 1, such as "
            f"{dict.fromkeys(labels[:3], round(1 / len(labels), 2))}, got {guess!r}."
        )
    return shares / shares.sum()


def _mean_and_sd(name: str, guess: Any) -> tuple[float, float | None]:
    given = dict(guess) if isinstance(guess, Mapping) else {"mean": guess}
    mean, sd = given.pop("mean", None), given.pop("sd", None)
    numbers = all(isinstance(v, (int, float)) for v in (mean, 0 if sd is None else sd))
    if given or not numbers or (sd is not None and sd <= 0):
        raise ModelError(
            f"Expected a guess of {name!r} such as {{'mean': 50, 'sd': 15}}, got {guess!r}."
        )
    return float(mean), None if sd is None else float(sd)


def _begins(column: Time) -> list[Any]:
    """A moment in each period, whatever format the column's texts have."""
    return [period_begin(n, column.every) for n in range(column.first, column.last + 1)]
