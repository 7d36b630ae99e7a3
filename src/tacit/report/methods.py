"""A methods paragraph to paste into a paper, and how to cite."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from tacit.posterior import Posterior
from tacit.report.privacy import Price
from tacit.spec.budget import plain

VERSION = version("tacit")
_NOISE = {
    "aware": "which account for the privacy noise",
    "plugin": "which take the released numbers as exact, and so are too narrow",
    "tempered": "of a tempered likelihood, released by the exponential mechanism or along a chain",
}


def paragraph(posteriors: Mapping[str, Posterior], price: Price | None, level: float) -> str:
    """Return how the results were made, in the words of a paper."""
    models = "; ".join(f"{name}: {_model(each.model)}" for name, each in posteriors.items())
    handled = dict.fromkeys(_NOISE.get(each.noise, each.noise) for each in posteriors.values())
    made = (
        f"Posteriors are given by draws, {'; or '.join(handled)}. Intervals are central and hold "
        f"{100 * level:g}% of the posterior. All computations used Tacit {VERSION}."
    )
    if price is None:
        return f"Models: {models}. {made} The data are public: no privacy mechanism was needed."
    if price.schema.neighbours == "replace_one":
        relation = "replacing one unit (the number of units is public)"
    else:
        relation = "adding or removing one unit"
    delta = f", delta = {plain(price.delta)}" if price.delta else ""
    accountants = dict.fromkeys(
        each.certificate.accountant
        for each in posteriors.values()
        if each.certificate.data == "private"
    )
    return (
        f"Results are differentially private with epsilon = {price.text}{delta} in "
        f"total, by basic composition of {len(posteriors)} analyses, for "
        f"{price.schema.protects}, under the relation of {relation}. Costs of single analyses "
        f"were computed by: {', '.join(accountants)}. Bounds and levels of all columns are "
        f"public and were not taken from the data. Models: {models}. {made}"
    )


def _model(facts: Mapping[str, Any]) -> str:
    options = ", ".join(f"{k} = {v}" for k, v in facts.items() if k != "model" and v is not None)
    return f"{facts['model']}({options})"


def citation() -> str:
    """Return how to cite the software."""
    return (
        f"Tacit contributors. Tacit: Bayesian inference under differential privacy. Version "
        f"{VERSION}."
    )
