"""The page of war_logs.py: what the paper says, what is measured, and where the paper slips."""

from __future__ import annotations

from dataclasses import dataclass

from war_logs_data import Panel
from war_logs_maps import Maps, Profiles
from war_logs_measures import Effort, HeldOut


@dataclass(frozen=True)
class Results:
    """What the page tells."""

    command: str
    splits: int
    ops_splits: int
    effort: Effort
    panels: list[Panel]
    found: list[HeldOut]
    mapped: list[tuple[Maps, Profiles]]


def page(results: Results) -> str:
    """The whole page."""
    return ""
