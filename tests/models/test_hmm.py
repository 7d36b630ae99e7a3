"""Hidden Markov models from a table to states: quality, odd input, and what a posterior can do."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment

import tacit
from tacit import plots
from tacit.datasets import simulate_incidents
from tacit.study.file import Study, run_analysis


def agreement(found, truth):
    """The share of cells with the right state, under the best names."""
    size = 1 + max(found.max(), truth.max())
    both = np.zeros((size, size))
    np.add.at(both, (found.ravel(), truth.ravel()), 1)
    return both[linear_sum_assignment(-both)].sum() / truth.size


def fitted(logs, how, states=3, *, chains=2, draws=300, noise="aware", **options):
    model = tacit.HMM(states, "region", "month", logs.columns, **options)
    public = tacit.Public(logs.table, logs.schema(), seed=1)
    return tacit.fit(model, public, how, draws=draws, chains=chains, seed=1, noise=noise)


@pytest.fixture(scope="module")
def small():
    logs = simulate_incidents(regions=4, months=24, states=2, entries=58, seed=3)
    return logs, fitted(logs, tacit.Laplace(5), 2)


@pytest.mark.parametrize(("seed", "how"), [(11, tacit.Laplace(1)), (12, tacit.Budget(1, 1e-6))])
def test_states_are_found_at_epsilon_1(seed, how):
    """Three states, 8 regions, 60 months, five features, 1,000 entries to a cell: 99%."""
    logs = simulate_incidents(8, 60, 3, entries=1000, seed=seed)
    found = fitted(logs, how).states().to_numpy()
    assert agreement(found, logs.states) >= 0.99


def test_noise_in_the_likelihood_helps():
    """At epsilon 1 and 58 entries noise is as large as the counts."""
    logs = simulate_incidents(10, 48, 4, entries=58, seed=5)
    aware = fitted(logs, tacit.Laplace(1), 4, draws=600)
    plugin = fitted(logs, tacit.Laplace(1), 4, draws=600, noise="plugin")
    assert agreement(aware.states().to_numpy(), logs.states) > 0.95
    fresh = simulate_incidents(10, 48, 4, entries=58, seed=5).table
    assert aware.log_likelihood(fresh).mean() > plugin.log_likelihood(fresh).mean()


def test_levels_that_never_occur_are_not_believed_in():
    """Projected noise would give each of them a share."""
    logs = simulate_incidents(6, 24, 2, entries=58, seed=1)
    kept = np.array([name != "category 20" for name in logs.table["category"]])
    table = {name: column[kept] for name, column in logs.table.items()}
    model = tacit.HMM(2, "region", "month", ["category"])
    public = tacit.Public(table, logs.schema(), seed=2)
    shares = {}
    for noise in ("aware", "plugin"):
        posterior = tacit.fit(model, public, tacit.Laplace(0.3), seed=1, noise=noise)
        shares[noise] = posterior.mean()[:, -1].max()
    assert shares["aware"] < 0.02 < shares["plugin"]


def test_held_out_cells_are_predicted(small):
    logs, _ = small
    cells = [(logs.regions[1], logs.months[t]) for t in (3, 10, 11, 23)]
    at = tuple(zip(*((1, t) for t in (3, 10, 11, 23)), strict=True))
    posterior = fitted(logs, tacit.Laplace(5), 2, held_out=cells)
    probability = posterior.state_probabilities().to_numpy().max(axis=2)
    assert probability[at].max() < 0.999
    assert np.median(probability) > 0.999
    assert agreement(posterior.states().to_numpy(), logs.states) > 0.95
    with pytest.raises(tacit.errors.ModelError, match="hold out"):
        fitted(logs, tacit.Laplace(5), 2, held_out=[("nowhere", "2004-01")])


def test_what_a_posterior_can_do(small, tmp_path):
    logs, posterior = small
    states = posterior.states()
    assert list(states.index) == list(logs.regions)
    assert list(states.columns) == list(logs.months)
    probability = posterior.state_probabilities()
    np.testing.assert_allclose(probability.sum("hidden_state"), 1)
    assert not any(name.startswith("states") for name in posterior.summary().index)
    posterior.save(tmp_path / "p.nc")
    again = tacit.Posterior.load(tmp_path / "p.nc")
    assert again.states().equals(states)
    rows = {name: column[:50] for name, column in logs.table.items()}
    np.testing.assert_array_equal(again.log_likelihood(rows), posterior.log_likelihood(rows))
    data = posterior.to_arviz()
    assert data.posterior["transition"].dims == ("chain", "draw", "hidden_state", "next_state")
    counts = posterior.flat("states").reshape(600, -1)
    assert (counts == 0).sum() >= (counts == 1).sum()  # the most common one is 0


def test_log_likelihood_is_that_of_each_row(small):
    logs, posterior = small
    r, t = 2, 5
    row = {"region": [logs.regions[r]], "month": [logs.months[t]]}
    row |= {name: ["yes"] for name in logs.columns[2:]} | {"type": ["other"], "category": ["?"]}
    each = np.arange(600)
    state = posterior.flat("states")[:, r, t]
    want = posterior.flat("emission_type")[each, state, 4]
    for name in logs.columns[2:]:
        want = want * posterior.flat(f"emission_{name}")[each, state, 1]
    assert posterior.log_likelihood(row) == pytest.approx([np.log(want.mean())])
    with pytest.raises(tacit.errors.ModelError, match="public levels"):
        posterior.log_likelihood({**row, "month": ["1999-01"]})
    with pytest.raises(tacit.errors.ModelError, match="column"):
        posterior.log_likelihood({"region": ["a"]})


ODD = {
    "one region": ({"regions": ["a"]}, 2),
    "one state": ({}, 1),
    "one time": ({"times": (3, 3)}, 2),
    "more states than cells": ({"times": (3, 4)}, 9),
    "gaps": ({"times": (1, 12)}, 2),
    "unseen levels": ({"kinds": ["u", "v", "w", "never"]}, 2),
    "one level": ({"kinds": ["u"]}, 2),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_panels_work(name):
    options, states = ODD[name]
    rng = np.random.default_rng(1)
    n = 200
    table = {
        "place": rng.choice(["a", "b", "elsewhere"], n),
        "when": rng.choice([3, 4, 9, 77], n),
        "kind": rng.choice(["u", "v", "w", "?"], n),
    }
    first, last = options.get("times", (1, 10))
    schema = tacit.Schema(
        tacit.Categorical("place", options.get("regions", ["a", "b"])),
        tacit.Integer("when", first, last),
        tacit.Categorical("kind", options.get("kinds", ["u", "v", "w"])),
        neighbours="add_remove",
    )
    model = tacit.HMM(states, "place", "when", "kind")
    for rows in (n, 1, 0):
        some = {column: values[:rows] for column, values in table.items()}
        public = tacit.Public(some, schema)
        for how in (tacit.Exact(), tacit.Laplace(1), tacit.Laplace(30), tacit.Laplace("1e-7")):
            for noise in ("aware", "plugin"):
                posterior = tacit.fit(model, public, how, draws=30, chains=2, noise=noise)
                assert np.all(np.isfinite(posterior.summary()))
                assert posterior.states().shape == (len(schema["place"].labels), last - first + 1)


def test_every_cell_held_out_is_the_prior(small):
    logs, _ = small
    everything = [(region, month) for region in logs.regions for month in logs.months]
    for how in (tacit.Laplace(5), tacit.Laplace(0.1), tacit.Exact()):
        posterior = fitted(logs, how, 2, held_out=everything)
        assert np.all(np.isfinite(posterior.summary()))


def test_the_papers_sampler_is_for_counts_at_face_value(small):
    logs, _ = small
    with pytest.raises(tacit.errors.ModelError, match="plugin"):
        fitted(logs, tacit.Laplace(5), 2, sampler="single_site")
    posterior = fitted(logs, tacit.Laplace(5), 2, sampler="single_site", noise="plugin")
    assert agreement(posterior.states().to_numpy(), logs.states) > 0.99


def test_a_release_of_other_counts_is_refused(small):
    _, posterior = small
    model = tacit.HMM(2, "region", "month", ["type"])
    with pytest.raises(tacit.errors.ModelError, match="answers"):
        model.posterior(posterior.releases[0])


def test_seeds_repeat_and_chains_agree(small):
    _, posterior = small
    (release,) = posterior.releases
    model = tacit.HMM(2, "region", "month", release.query.columns)
    again = [model.posterior(release, draws=100, chains=3, seed=4) for _ in range(2)]
    assert again[0].summary().equals(again[1].summary())
    means = again[0].draws["emission_type"].mean(axis=1)
    assert np.ptp(means, axis=0).max() < 0.05
    wider = replace(model, prior=50.0).posterior(release, draws=100, chains=3, seed=4)
    assert np.abs(wider.mean() - 0.2).sum() < np.abs(again[0].mean() - 0.2).sum()


def test_a_study_file_can_ask_for_it(tmp_path):
    logs = simulate_incidents(2, 6, 2, entries=20, seed=1)
    (tmp_path / "study.toml").write_text(
        """
[data]
source = "logs.csv"
ledger = "logs.ledger"
[schema]
neighbours = "replace_one"
columns = [
  { name = "region", type = "categorical", levels = ["region 01", "region 02"] },
  { name = "month", type = "time", start = "2004-01", end = "2004-06", every = "month" },
  { name = "civilian_casualties", type = "categorical", levels = ["no", "yes"] },
]
[budget]
epsilon = 1.0
[[analysis]]
name = "states"
model = "HMM"
n_states = 2
sequence = "region"
time = "month"
emissions = ["civilian_casualties"]
prior = 0.5
held_out = [["region 01", "2004-03"]]
draws = 50
how = { mechanism = "Laplace", epsilon = 1.0 }
"""
    )
    study = Study.load(tmp_path / "study.toml")
    posterior = run_analysis(study.analyses[0], tacit.Public(logs.table, study.schema))
    assert posterior.states().shape == (2, 6)


def test_pictures(small):
    _, posterior = small
    panels = Figure().subplots(5)
    assert plots.state_map(posterior, ax=panels[0]) is panels[0]
    assert len(plots.profiles(posterior, ax=panels)) == 5
    assert list(plots.profiles(posterior, "type", ax=panels[0])) == [panels[0]]
    with pytest.raises(tacit.errors.ModelError, match="5 axes"):
        plots.profiles(posterior, ax=panels[0])
    with pytest.raises(tacit.errors.ModelError, match="colour"):
        plots.profiles(posterior, "colour")
    other = tacit.DirichletCategorical("type")
    public = tacit.Public(small[0].table, small[0].schema())
    with pytest.raises(tacit.errors.ModelError, match="HMM"):
        plots.state_map(tacit.fit(other, public, tacit.Laplace(1), draws=10))
