"""Questions and answers in words, from what a posterior says of its model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from tacit.posterior import HiddenStatesPosterior, Posterior
from tacit.posterior.topics import TopicPosterior
from tacit.report.rounding import Estimate

_WORDS = {
    "p": "share",
    "rows": "rows with a value",
    "sd": "standard deviation",
    "sigma": "residual standard deviation",
    "coef": "effect",
}
_MOST_SAID = 6  # numbers in words; the table has more


def in_words(posterior: Posterior, variable: str) -> str:
    """Return what a variable is called on the page."""
    if variable == "weights" and is_share(posterior, variable):
        return "share of each group"
    return _WORDS.get(variable, variable)


def is_share(posterior: Posterior, variable: str) -> bool:
    """Return whether a variable's numbers are probabilities, which are shown in percent."""
    if variable.startswith(("p(", "emission_")) or variable in ("p", "transition", "start"):
        return True
    return variable == "weights" and posterior.dims[variable] == ("component",)


def main_variable(posterior: Posterior) -> str:
    """Return the variable that answers the question: differences between groups, a mean."""
    names = list(posterior.draws)
    given = [name for name in names if name.startswith("p(") and "|" in name]
    return next(iter(given), "mean" if "mean" in names else names[0])


def question(posterior: Posterior) -> str:
    """Return what the model asks, as a person would."""
    facts = posterior.model
    column, target = facts.get("column"), facts.get("target")
    features = _list(facts.get("features", facts.get("columns", ())))
    match facts["model"]:
        case "BetaBernoulli":
            return f"What share of the rows has {column} = {_either(facts['success'])}?"
        case "DirichletCategorical":
            return f"What share of the rows has each level of {column}?"
        case "GammaPoisson" | "GammaExponential" | "NormalMean":
            return f"What is the mean of {column}?"
        case "NormalModel":
            return f"What is the mean of {column}, and how much does it vary?"
        case "MultivariateNormalModel":
            return f"What are the means of {features}, and how are they correlated?"
        case "LinearRegression":
            return f"How does {target} change with {features}?"
        case "LogisticRegression":
            return f"Which of {features} go with a higher or lower chance of {_second(posterior)}?"
        case "NaiveBayes":
            return f"How do {features} differ between the levels of {target}?"
        case "BayesNet":
            asked = [(child, parents) for child, parents in facts["graph"].items() if parents]
            if not asked:
                return f"What share of the rows has each level of {_list(facts['graph'])}?"
            first, *others = (f"{child} depend on {_list(parents)}" for child, parents in asked)
            more = [text.replace(" depend on ", " on ", 1) for text in others]
            return f"How does {_list([first, *more])}?"
        case "MarkovRandomField":
            return "How often do the levels of neighbouring columns occur together?"
        case "HMM":
            return (
                f"Which hidden state is each {facts['sequence']} in over {facts['time']}, by "
                f"{_list(facts['emissions'])}?"
            )
        case "GaussianMixture" | "NaiveBayesMixture":
            return f"Which {facts['n_components']} groups of rows are there, by {features}?"
        case "SigmoidBeliefNetwork":
            return f"Which hidden causes explain {_list(facts['visible'])}?"
        case "LDA":
            return f"Which {facts['n_topics']} topics are the documents about?"
        case other:
            return f"What are the parameters of the model {other}?"


def answers(posterior: Posterior, level: float) -> list[str]:
    """Return the answer in a few sentences, rounded to its uncertainty."""
    sure = f"{100 * level:g}%"
    match posterior:
        case TopicPosterior():
            words = posterior.top_words(6)
            return [f"Topic {i}: {', '.join(words.loc[i])}." for i in words.index[:_MOST_SAID]]
        case HiddenStatesPosterior():
            return _states(posterior)
    if "coef" in posterior.draws and posterior.dims["coef"] == ("feature",):
        return _effects(posterior, level, sure)
    name = main_variable(posterior)
    found = estimates(posterior, name, level)
    if name.startswith("p(") and "|" in name and posterior[name].shape[-1] == 2:
        found = found[1::2]  # of two shares that sum to one, the second level's
    said = [_said(each, sure) for each in found[:_MOST_SAID]]
    if len(found) > _MOST_SAID:
        said.append(f"The table below has {len(found) - _MOST_SAID} numbers more.")
    return said


def estimates(posterior: Posterior, variable: str, level: float) -> list[Estimate]:
    """Return each number of a variable with its interval, as texts."""
    share = is_share(posterior, variable)
    mean = np.ravel(posterior.mean(variable))
    low, high = (np.ravel(end) for end in posterior.interval(level, variable))
    labels = product(*(posterior.coords[dim] for dim in posterior.dims[variable]))
    return [
        Estimate.of(_label(posterior, variable, cell), *ends, share=share)
        for cell, *ends in zip(labels, mean, low, high, strict=True)
    ]


def _said(found: Estimate, sure: str) -> str:
    ends = f"with a probability of {sure} between {found.low} and {found.high}"
    known = ends if found.known else "a single point, whose error is not known"
    return f"{opening(found.label)}: {found.mean}; {known}."


def opening(label: str) -> str:
    """Return a label as the beginning of a sentence; names of columns and tables stay."""
    return label if set(label) & set("(=_") else label[:1].upper() + label[1:]


def _label(posterior: Posterior, variable: str, cell: Sequence[Any]) -> str:
    """Return what one number is of, in words where the names of its dimensions say it."""
    levels = [f"{dim} = {v}" for dim, v in zip(posterior.dims[variable], cell, strict=True)]
    name = in_words(posterior, variable)
    if not cell:
        return name
    if variable.startswith("emission_"):
        return f"{levels[1]} in state {cell[0]}"
    if variable.startswith("p(") and "|" in variable:
        return f"{levels[-1]} where {' and '.join(levels[:-1])}"
    if variable == "p" or variable.startswith("p("):
        return ", ".join(levels)
    return f"{name}: {', '.join(map(str, cell))}"


def _effects(posterior: Posterior, level: float, sure: str) -> list[str]:
    """A sentence for each coefficient: with its direction, or that there is none to be seen."""
    logistic = posterior.model["model"] == "LogisticRegression"
    what = f"the odds of {_second(posterior)}" if logistic else str(posterior.model.get("target"))
    mean = np.ravel(posterior.mean("coef"))
    low, high = (np.ravel(end) for end in posterior.interval(level, "coef"))
    said = []
    verb = f"{'multiplies' if logistic else 'changes'} {what} by"
    for name, *ends in zip(posterior.coords["feature"], mean, low, high, strict=True):
        shown = [math.exp(min(end, 50.0)) for end in ends] if logistic else ends
        found = Estimate.of(str(name), *shown, share=False)
        unclear = " The direction is not clear." if ends[1] < 0 < ends[2] else ""
        more = "" if "[" in str(name) else "one unit more "
        known = f"{sure}: {found.low} to {found.high}" if found.known else "its error is not known"
        said.append(f"{name}: {more}{verb} {found.mean} ({known}).{unclear}")
    return said[:_MOST_SAID]


def _states(posterior: HiddenStatesPosterior) -> list[str]:
    """How common each state is, and the level that stands out in it."""
    share = posterior.state_probabilities().to_numpy().mean(axis=(0, 1))
    said = []
    for state, part in enumerate(share[:_MOST_SAID]):
        tops = []
        for name in posterior.model["emissions"]:
            chances = posterior.mean(f"emission_{name}")[state]
            best = int(np.argmax(chances))
            tops.append(f"{name} = {posterior.coords[name][best]} ({chances[best]:.0%})")
        said.append(
            f"State {state} is expected in {part:.0%} of cells. Most frequent in it: "
            f"{', '.join(tops)}."
        )
    return said


def _second(posterior: Posterior) -> str:
    target = str(posterior.model["target"])
    return f"{target} = {posterior.releases[0].schema[target].labels[1]}"


def _either(levels: Any) -> str:
    return " or ".join(map(str, levels)) if isinstance(levels, (tuple, list)) else str(levels)


def _list(names: Sequence[Any]) -> str:
    *first, last = [str(name) for name in names] or [""]
    return f"{', '.join(first)} and {last}" if first else last
