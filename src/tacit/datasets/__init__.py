"""Simulators with known truth, for demonstrations and tests. No real data are here."""

from tacit.datasets.letters import Letters, simulate_letters
from tacit.datasets.tables import (
    CATEGORIES,
    FLAGS,
    STUDY,
    TYPES,
    WARDS,
    Incidents,
    Logs,
    Readmissions,
    hospital_incidents,
    simulate_incidents,
    simulate_readmissions,
    write_demo,
)

__all__ = [
    "CATEGORIES",
    "FLAGS",
    "STUDY",
    "TYPES",
    "WARDS",
    "Incidents",
    "Letters",
    "Logs",
    "Readmissions",
    "hospital_incidents",
    "simulate_incidents",
    "simulate_letters",
    "simulate_readmissions",
    "write_demo",
]
