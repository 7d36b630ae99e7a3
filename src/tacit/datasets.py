"""Simulators with known truth, for demonstrations and tests. No real data are here."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.spec.columns import Categorical, Time, Tokens
from tacit.spec.schema import Neighbours, Schema

STUDY = """\
# What may be asked, at what price, and about whom. Everything in this file is public.

[data]
source = "incidents.csv"
ledger = "incidents.ledger"

[schema]
unit = "patient"
max_rows_per_unit = 2
neighbours = "replace_one"        # the number of patients is public; what happened to them is not
columns = [
  { name = "harm", type = "categorical", levels = ["no", "yes"] },
  { name = "kind", type = "categorical", levels = ["fall", "medication", "device", "other"] },
  { name = "month", type = "time", start = "2025-01", end = "2025-12", every = "month" },
]

[budget]
epsilon = 1.0
delta = 1e-6

[[analysis]]
name = "harm"
model = "BetaBernoulli"
column = "harm"
success = "yes"
how = { mechanism = "Laplace", epsilon = 0.4 }

[[analysis]]
name = "kind"
model = "DirichletCategorical"
column = "kind"
how = { epsilon = 0.5, delta = 1e-6 }   # whichever mechanism adds less noise

[output]
folder = "results"
"""


@dataclass(frozen=True)
class Incidents:
    """A simulated table of hospital incidents and the probabilities it was drawn from."""

    table: dict[str, np.ndarray]
    truth: dict[str, dict[str, float]]


def hospital_incidents(patients: int = 2000, seed: int = 0) -> Incidents:
    """Incidents of invented patients, some with several, some with a field left empty.

    Examples
    --------
    >>> hospital_incidents(seed=1).truth["harm"]
    {'yes': 0.18}
    """
    rng = np.random.default_rng(seed)
    kinds = {"fall": 0.41, "medication": 0.33, "device": 0.07, "other": 0.19}
    per_patient = rng.choice([1, 2, 3], size=patients, p=[0.8, 0.15, 0.05])
    patient = np.repeat([f"P{i:05d}" for i in range(patients)], per_patient)
    n = len(patient)
    harm = np.where(rng.random(n) < 0.18, "yes", "no")
    kind = rng.choice(list(kinds), size=n, p=list(kinds.values()))
    month = np.array([f"2025-{m:02d}" for m in rng.integers(1, 13, size=n)])
    for column in (harm, kind):
        column[rng.random(n) < 0.02] = ""
    table = {"patient": patient, "harm": harm, "kind": kind, "month": month}
    return Incidents(table, {"harm": {"yes": 0.18}, "kind": kinds})


def write_demo(folder: Path, seed: int = 0) -> dict[str, dict[str, float]]:
    """Write the simulated table, its study file and its truth; return the truth."""
    folder.mkdir(parents=True, exist_ok=True)
    incidents = hospital_incidents(seed=seed)
    with (folder / "incidents.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(incidents.table)
        writer.writerows(zip(*incidents.table.values(), strict=True))
    (folder / "study.toml").write_text(STUDY, encoding="utf-8")
    truth: dict[str, Any] = incidents.truth
    (folder / "truth.json").write_text(json.dumps(truth, indent=2), encoding="utf-8")
    return truth


@dataclass(frozen=True)
class Readmissions:
    """A simulated table of patients, and the logistic regression that decided who came back.

    `truth` has the coefficients by the names that a `LogisticRegression` of these features gives
    them, and the intercept. `probability` is each row's.
    """

    table: dict[str, np.ndarray]
    truth: dict[str, float]
    probability: np.ndarray


WARDS = ("geriatrics", "maternity", "medicine", "surgery")


def simulate_readmissions(patients: int = 10_000, seed: int = 0) -> Readmissions:
    """Invented patients, one row each: who came back within a month?

    Columns are `age`, `ward`, `alone` (whether they live alone), `visits` (in the year before) and
    `readmitted`.

    Examples
    --------
    >>> simulate_readmissions(100).truth["age"]
    0.02
    """
    rng = np.random.default_rng(seed)
    of_ward = np.array([0.3, -0.6, 0.2, 0.1])  # from the mean of all wards
    ward = rng.choice(4, patients, p=[0.2, 0.15, 0.4, 0.25])
    age = rng.normal(np.array([78, 32, 60, 52])[ward], np.array([7, 5, 14, 15])[ward])
    alone = rng.random(patients) < 0.15 + 0.005 * (age - 20).clip(0)
    visits = np.minimum(rng.poisson(rng.gamma(1.5, 1.2, patients)), 10)
    age = age.clip(18, 95).round()
    truth = {"age": 0.02, "visits": 0.25, "alone[yes]": 0.5, "intercept": -2.9}
    odds = truth["intercept"] + truth["age"] * age + truth["visits"] * visits
    odds += truth["alone[yes]"] * alone + of_ward[ward]
    probability = 1 / (1 + np.exp(-odds))
    truth |= {f"ward[{name}]": float(effect) for name, effect in zip(WARDS, of_ward)}
    came_back = rng.random(patients) < probability
    table = {
        "age": age,
        "ward": np.array(WARDS)[ward],
        "alone": np.where(alone, "yes", "no"),
        "visits": visits,
        "readmitted": np.where(came_back, "yes", "no"),
    }
    return Readmissions(table, truth, probability)


FLAGS = ("friendly_casualties", "host_nation_casualties", "civilian_casualties")
LEVELS = {
    "type": ("enemy action", "explosive hazard", "criminal event", "friendly action", "other"),
    "category": tuple(f"category {i:02d}" for i in range(1, 21)),
    **dict.fromkeys(FLAGS, ("no", "yes")),
}


@dataclass(frozen=True)
class Logs:
    """A simulated incident log, and the hidden states and probabilities it was drawn from.

    `states` is (region, month), `emissions` has (state, level) for each column.
    """

    table: dict[str, np.ndarray]
    regions: tuple[str, ...]
    months: tuple[str, ...]
    states: np.ndarray
    emissions: dict[str, np.ndarray]
    transition: np.ndarray

    @property
    def columns(self) -> tuple[str, ...]:
        """What the states explain."""
        return tuple(self.emissions)

    def schema(self, neighbours: Neighbours = "replace_one") -> Schema:
        """Everything in it is public: regions and months too, whether or not they have rows."""
        return Schema(
            Categorical("region", self.regions, default=self.regions[0]),
            Time("month", self.months[0], self.months[-1], default=self.months[0]),
            *(Categorical(name, levels, default=levels[-1]) for name, levels in LEVELS.items()),
            neighbours=neighbours,
        )


def simulate_incidents(
    regions: int = 20,
    months: int = 72,
    states: int = 3,
    entries: float = 58,
    *,
    separation: float = 1.0,
    persistence: float = 0.9,
    seed: int = 0,
) -> Logs:
    """An invented log of incidents with the shape of the papers' war logs.

    Parameters
    ----------
    regions, months, states
        How many of each. Months begin in January 2004.
    entries
        The median number of rows to a region and month; some have several times as many.
    separation
        How different states are: 0 is not at all, 1 is clearly.
    persistence
        The probability that a state stays another month.

    Examples
    --------
    >>> simulate_incidents(regions=2, months=3, states=2, seed=1).states.shape
    (2, 3)
    """
    rng = np.random.default_rng(seed)
    emissions = {}
    for name, levels in LEVELS.items():
        shared = rng.dirichlet(np.ones(len(levels)))
        own = rng.dirichlet(np.ones(len(levels)), size=states)
        mixed = (1 - min(separation, 1)) * shared + separation * own
        emissions[name] = mixed / mixed.sum(axis=1, keepdims=True)
    other = (1 - persistence) / max(states - 1, 1)
    transition = np.full((states, states), other)
    np.fill_diagonal(transition, persistence if states > 1 else 1.0)
    hidden = np.empty((regions, months), dtype=np.int64)
    hidden[:, 0] = rng.integers(states, size=regions)
    for t in range(1, months):
        hidden[:, t] = _chosen(transition[hidden[:, t - 1]], rng)
    size = rng.poisson(entries * np.exp(rng.normal(0, 0.5, hidden.shape)))
    where = np.repeat(np.arange(hidden.size), size.ravel())
    names = tuple(f"region {i:02d}" for i in range(1, regions + 1))
    dates = tuple(f"{2004 + t // 12}-{t % 12 + 1:02d}" for t in range(months))
    table = {"region": np.array(names)[where // months], "month": np.array(dates)[where % months]}
    for name, p in emissions.items():
        table[name] = np.array(LEVELS[name])[_chosen(p[hidden.ravel()[where]], rng)]
    return Logs(table, names, dates, hidden, emissions, transition)


def _chosen(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a column of each row, chosen in proportion to the row's weights."""
    cumulative = weights.cumsum(axis=1)
    return (cumulative < rng.random((len(weights), 1)) * cumulative[:, -1:]).sum(axis=1)


THEMES = {
    "harvest": "wheat barley field plough rain seed harvest barn horse cow hay orchard apple "
    "drought soil mill farmer wagon frost meadow",
    "illness": "fever doctor cough bed medicine weak pain recover nurse hospital breath wound "
    "blood sleep cure sick physician remedy pulse rest",
    "money": "debt bank pay loan price rent bill coin owe wages interest merchant account sum "
    "bond lender tax payment credit market",
    "love": "heart kiss dearest miss marry ring sweet longing letter embrace beloved tender "
    "promise wait dream forever darling tears wedding bride",
    "war": "regiment captain march battle trench gun soldier enemy camp officer front wounded "
    "attack general cannon siege order uniform prisoner truce",
    "voyage": "ship sea harbour sail storm deck captain island cargo port anchor coast voyage "
    "passage sailor wind tide mast cabin shore",
    "school": "school lesson teacher book latin exam pupil study learn read write grammar class "
    "master essay prize library student chalk spelling",
    "court": "judge trial lawyer witness court verdict guilty prison sentence law case plea oath "
    "evidence jury crime appeal bail clerk charge",
}
COMMON = (
    "dear day time good hope know come think year house mother father brother sister friend great "
    "little give take tell hear leave return home night morning week long old new much many see "
    "find send ask want keep away soon still family children well glad sorry thank sincerely"
)


@dataclass(frozen=True)
class Letters:
    """Simulated letters, who wrote them, and the themes that they were drawn from.

    `topics` is (theme, word), the words in the order of `vocabulary`; `shares` (letter, theme).
    """

    table: dict[str, np.ndarray]
    vocabulary: tuple[str, ...]
    themes: tuple[str, ...]
    topics: np.ndarray
    shares: np.ndarray

    def schema(self, neighbours: Neighbours = "replace_one") -> Schema:
        """The vocabulary is public: it was not made from the letters."""
        words = Tokens("letter", self.vocabulary, max_length=500)
        return Schema(words, unit="author", max_rows_per_unit=2, neighbours=neighbours)


def simulate_letters(letters: int = 10_000, seed: int = 0) -> Letters:
    """Invented letters, one or two by each author, about a few of eight themes.

    Columns are `author` and `letter`, a text.

    Examples
    --------
    >>> simulate_letters(10).themes[:3]
    ('harvest', 'illness', 'money')
    """
    rng = np.random.default_rng(seed)
    themes = tuple(THEMES)
    vocabulary = tuple(sorted({*COMMON.split(), *" ".join(THEMES.values()).split()}))
    common = np.zeros(len(vocabulary))
    common[np.searchsorted(vocabulary, COMMON.split())] = rng.gamma(1.0, size=len(COMMON.split()))
    topics = np.zeros((len(themes), len(vocabulary)))
    for i, words_of in enumerate(THEMES.values()):
        own = np.searchsorted(vocabulary, words_of.split())
        topics[i, own] = rng.gamma(2.0, size=len(own))
    topics = topics / topics.sum(axis=1, keepdims=True) + 0.5 * common / common.sum()
    topics /= topics.sum(axis=1, keepdims=True)
    shares = rng.dirichlet(np.full(len(themes), 0.15), size=letters)
    lengths = 20 + rng.poisson(60, size=letters)
    words = np.array(vocabulary, dtype=object)
    texts = np.empty(letters, dtype=object)
    for i, (share, length) in enumerate(zip(shares, lengths)):
        drawn = rng.choice(words, size=length, p=share @ topics)
        texts[i] = " ".join(drawn).capitalize() + "."
    author = np.sort(rng.integers(0, max(1, int(letters / 1.2)), size=letters))
    table = {"author": np.array([f"author {i}" for i in author]), "letter": texts}
    return Letters(table, vocabulary, themes, topics, shares)
