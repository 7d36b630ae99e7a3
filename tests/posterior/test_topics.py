"""Draws of topics: their law, and that they are made when they are asked for."""

import numpy as np
import pytest
from scipy.stats import kstest

import tacit
from tacit.posterior import topics
from tacit.posterior.topics import TopicDraws, TopicPosterior
from tacit.spec.sampling import Sampling
from tacit.testing import simulated_release

WORDS = tuple(f"w{i}" for i in range(5))
WEIGHT = np.array([[40.0, 9, 1, 0.5, 0.01], [1, 1, 1, 1, 1]])


def posterior(spread, draws=1000, chains=4):
    schema = tacit.Schema(tacit.Categorical("x", ["a", "b"]), neighbours="replace_one")
    release = simulated_release(schema, tacit.queries.Counts("x"), tacit.Exact(), [1, 2, 0], 3)
    sampling = Sampling(draws=draws, chains=chains, seed=1)
    return TopicPosterior.from_parameters(
        tacit.LDA(2), release, sampling, weight=WEIGHT, spread=spread, words=WORDS
    )


def test_without_noise_draws_are_of_a_dirichlet():
    """A word's probability is Beta: Kolmogorov's test, false alarms 1e-6 each."""
    drawn = posterior(np.sqrt(WEIGHT)).draws["topics"]
    assert drawn.shape == (4, 1000, 2, 5)
    np.testing.assert_allclose(drawn.sum(axis=3), 1)
    for topic, word in ((0, 0), (0, 3), (1, 2)):
        a = WEIGHT[topic, word]
        law = ("beta", (a, WEIGHT[topic].sum() - a))
        assert kstest(drawn[:, :, topic, word].ravel(), *law).pvalue > 1e-6


@pytest.mark.parametrize("spread", [1e-9, 0.1, 3.0])
def test_draws_have_the_moments_that_are_reported(spread):
    found = posterior(np.full(WEIGHT.shape, spread))
    drawn = found.flat()
    assert np.all(np.isfinite(drawn))
    # A total that is noisy too: about, and within 6 standard errors of 4,000 draws.
    wide = 6 * drawn.std(axis=0) / np.sqrt(4000) + 0.15 * min(spread, 1) + 1e-9
    assert np.all(np.abs(drawn.mean(axis=0) - found.topics) < wide)


def test_any_draw_can_be_made_alone():
    found = posterior(np.sqrt(WEIGHT), draws=5, chains=2)
    np.testing.assert_array_equal(found.sample(10), found.flat("topics"))
    np.testing.assert_array_equal(found.sample(2), found.flat()[[0, 9]])
    for n in (0, 11, 2.5, True):
        with pytest.raises(tacit.errors.ModelError, match="10 draws"):
            found.sample(n)
    for ask in (found.mean, found.sample, lambda v: found.interval(0.9, v)):
        with pytest.raises(tacit.errors.ModelError):
            ask("weight")
    with pytest.raises(KeyError):
        found.draws["weight"]


def test_draws_that_do_not_fit_are_refused_and_saved_all_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr(topics, "_MOST_NUMBERS", 10 * WEIGHT.size)
    monkeypatch.setattr(topics, "_MOST_FOR_ARVIZ", 8 * WEIGHT.size)
    found = posterior(np.sqrt(WEIGHT), draws=100, chains=2)
    with pytest.raises(tacit.errors.ModelError, match=r"at most 10 draws of topics.*sample\(n\)"):
        found.draws["topics"]
    assert "2 x 100 draws" in repr(found)
    assert found.to_arviz()["posterior"].sizes["draw"] == 4
    found.save(tmp_path / "topics.nc")
    again = tacit.Posterior.load(tmp_path / "topics.nc")
    assert isinstance(again.draws, TopicDraws)
    assert again.summary().equals(found.summary())
    assert again.summary().attrs["missing"] == found.summary().attrs["missing"]
    found.table().to_csv(tmp_path / "t.csv")
    found.summary().to_csv(tmp_path / "f.csv")
    assert (tmp_path / "t.csv").read_bytes() == (tmp_path / "f.csv").read_bytes()
    np.testing.assert_array_equal(again.sample(200), found.sample(200))
