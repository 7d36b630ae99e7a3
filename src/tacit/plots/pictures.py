"""Which pictures a model has when nobody says which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from tacit.plots import estimates
from tacit.plots.hidden_states import map_height, profile_height, profiles, state_map
from tacit.plots.topics import TOPIC, topic_height, topics
from tacit.posterior import HiddenStatesPosterior, Posterior
from tacit.posterior.topics import TopicPosterior

_MOST_TOPICS = 12


class Picture(NamedTuple):
    """A picture of one axes: what it shows, its height in inches, and how it is drawn."""

    title: str
    height: float
    draw: Callable[[Axes], Any]


def pictures(posterior: Posterior, level: float = 0.9) -> list[Picture]:
    """Return the default pictures of a model: `picture.draw(ax)` draws one.

    Densities of single numbers, intervals of several, forests where they have groups, effects of
    regressions, maps and profiles of hidden states, the words of topics.
    """
    match posterior:
        case TopicPosterior():
            return list(_topics(posterior, level))
        case HiddenStatesPosterior():
            return list(_hidden(posterior, level))
        case _:
            return [_picture(posterior, name, level) for name in posterior.draws]


def _picture(posterior: Posterior, name: str, level: float) -> Picture:
    rows, dims = len(estimates.cells_of(posterior, name)), len(posterior.dims[name])
    given: Any = {"posterior": posterior, "variable": name, "level": level}
    if name == "coef" and posterior.dims[name] == ("feature",):
        draw: Any = partial(estimates.effects, posterior, level)
        return Picture("Effects", estimates.height_of(rows), lambda ax: draw(ax=ax))
    if dims == 0:
        return Picture(name, 2.0, lambda ax: estimates.posterior(**given, ax=ax))
    shape = estimates.intervals if dims == 1 else estimates.forest
    return Picture(name, estimates.height_of(rows), lambda ax: shape(**given, ax=ax))


def _topics(posterior: TopicPosterior, level: float) -> Iterator[Picture]:
    for number in posterior.top_words(1).index[:_MOST_TOPICS]:
        draw = partial(topics, posterior, level=level, topic=number)
        yield Picture(f"{TOPIC} {number}", topic_height(), lambda ax, draw=draw: draw(ax=ax)[0])


def _hidden(posterior: HiddenStatesPosterior, level: float) -> Iterator[Picture]:
    sequence = posterior.dims["states"][0]
    height = map_height(len(posterior.coords[sequence]))
    yield Picture("Most probable states", height, lambda ax: state_map(posterior, ax=ax))
    for name in posterior.model["emissions"]:
        draw = partial(profiles, posterior, name, level)
        height = profile_height(posterior, name) + 0.4
        yield Picture(f"Profile: {name}", height, lambda ax, draw=draw: draw(ax=ax)[0])
    yield _picture(posterior, "transition", level)
