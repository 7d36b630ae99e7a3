"""Simulators with known truth, for demonstrations and tests. No real data are here."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

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
