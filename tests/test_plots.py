"""Pictures: axes that are given are used, labels are plain text, and ledgers grow."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

import tacit
from tacit import plots
from tacit.plots.canvas import OKABE_ITO, colours

SCHEMA = tacit.Schema(
    tacit.Categorical("cost_$", ["$1", "$2 < $3", "_^{"]),
    tacit.Categorical("ill", ["no", "yes"]),
    neighbours="replace_one",
)
TABLE = {"cost_$": ["$1", "$2 < $3", "_^{", "$1"] * 50, "ill": ["no", "yes"] * 100}


def ax():
    return Figure(layout="constrained").subplots()


@pytest.fixture(scope="module")
def network():
    model = tacit.BayesNet({"cost_$": [], "ill": ["cost_$"]})
    return tacit.fit(model, tacit.Public(TABLE, SCHEMA), tacit.Laplace(2), draws=100, seed=1)


def texts(axes):
    axes.figure.canvas.draw()
    return [label.get_text() for label in axes.get_yticklabels()]


def test_labels_are_not_taken_for_mathematics(network):
    drawn = plots.forest(network, "p(ill|cost_$)", ax=ax())
    axes_texts = texts(drawn)
    assert axes_texts[0] == r"\$1:  no"  # drawn as $1
    assert len(axes_texts) == 6
    assert texts(plots.intervals(network, ax=ax()))[1] == r"\$2 < \$3"


def test_a_new_figure_is_made_where_none_is_given(network):
    import matplotlib.pyplot as plt

    with plt.rc_context({"figure.max_open_warning": 0}):
        made = plots.intervals(network)
    assert plt.get_fignums()
    plt.close(made.figure)


@pytest.mark.parametrize(
    "call",
    [
        lambda p: plots.forest(p, "p(cost_$)"),
        plots.posterior,
        lambda p: plots.intervals(p, "theta"),
        plots.effects,
        plots.topics,
        lambda p: plots.accuracy({math.inf: p}),
        lambda p: plots.accuracy({1.0: p}, label="$7"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_words(network, call):
    with pytest.raises(tacit.errors.ModelError):
        call(network)


def test_accuracy_is_drawn_for_each_epsilon():
    model = tacit.BetaBernoulli("ill", success="yes")
    public = tacit.Public(TABLE, SCHEMA)
    fits = {e: tacit.fit(model, public, tacit.Laplace(e), draws=200, seed=1) for e in (0.1, 2.0)}
    fits[math.inf] = tacit.fit(model, public, tacit.Exact(), draws=200, seed=1)
    drawn = plots.accuracy(fits, ax=ax())
    (means,) = (line for line in drawn.get_lines() if line.get_marker() == "o")
    assert list(means.get_xdata()) == [0.1, 2.0]
    (widths,) = drawn.collections
    first, second = (np.ptp(path.vertices[:, 1]) for path in widths.get_paths())
    assert first > second
    with_and_without = plots.noise(fits[0.1], fits[math.inf], ax=ax())
    assert len(with_and_without.collections) == 2


def test_a_ledger_over_time_ends_at_what_was_spent(tmp_path):
    path = tmp_path / "x.ledger"
    wall = tacit.Wall(TABLE, SCHEMA, budget=tacit.Budget(1), ledger=path)
    for name in ("first", "second"):
        wall.release(tacit.queries.Counts("ill"), tacit.Laplace(0.25), name=name)
    ledger = tacit.Ledger(path)
    ledger.raise_budget(tacit.Budget(2), "more questions")
    limit, spent = plots.ledger(ledger, ax=ax()).get_lines()[:2]
    assert (spent.get_ydata()[-1], limit.get_ydata()[-1]) == (0.5, 2.0)


def test_a_ledger_with_a_filter_is_drawn_as_it_adds_up(tmp_path):
    path, budget = tmp_path / "x.ledger", tacit.Budget(1, 1e-6)
    wall = tacit.Wall(TABLE, SCHEMA, budget=budget, ledger=path, composition="gdp")
    wall.release(tacit.queries.Counts("ill"), tacit.Gaussian(0.25, 1e-6))
    drawn = plots.ledger(tacit.Ledger(path), ax=ax())
    limit, spent = drawn.get_lines()[:2]
    chain = tacit.Ledger(path).read()
    assert drawn.get_ylabel() == "mu squared"
    assert spent.get_ydata()[-1] == float(chain.spent.by_name["mu_squared"])
    assert limit.get_ydata()[-1] == float(chain.adds_up.limits(budget).by_name["mu_squared"])


def test_few_colours_are_those_of_okabe_and_ito():
    assert len(set(colours(8))) == len(OKABE_ITO) == 8
    assert len(set(colours(20))) == 20
    assert len(set(colours(40))) == 40
