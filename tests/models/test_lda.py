"""Topics: found again in simulated documents, and sensible on strange ones."""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_matrix

import tacit
from tacit import plots
from tacit.datasets import simulate_letters
from tacit.models import lda
from tacit.spec.variational import Sums
from tacit.subsampling import Everyone, Poisson

LETTERS = simulate_letters(6000, seed=3)
FRESH = simulate_letters(400, seed=3)  # the same topics: they are drawn first
VOCABULARY = [f"w{i}" for i in range(20)]


def overlap(posterior, truth):
    """The mean share of probability that each topic has in common with its own true one."""
    common = 1 - np.abs(posterior.topics[:, None] - truth[None]).sum(axis=2) / 2
    return common[linear_sum_assignment(-common)].mean()


def letters(seed):
    return tacit.Public(LETTERS.table, LETTERS.schema(), seed=seed)


@pytest.fixture(scope="module")
def exact():
    how = tacit.VIPS(noise_multiplier=0, sampling=Poisson(1 / 12), steps=36)
    return tacit.fit(tacit.LDA(8), letters(0), how)


def test_simulated_topics_are_found(exact):
    assert overlap(exact, LETTERS.topics) > 0.75
    shares = exact.transform(LETTERS.table["letter"])
    assert shares.shape == (6000, 8)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_topics_are_found_as_epsilon_grows(seed):
    found = [
        overlap(tacit.fit(tacit.LDA(8), letters(seed), tacit.VIPS(e, 1e-6)), LETTERS.topics)
        for e in (0.3, 3, 100)
    ]
    assert found[0] < found[2]
    assert found[2] > 0.65


def test_perplexity_is_better_than_that_of_word_frequencies(exact):
    texts = FRESH.table["letter"]
    alone = tacit.fit(tacit.LDA(1), letters(0), tacit.VIPS(noise_multiplier=0, steps=1))
    assert exact.perplexity(texts) < 0.8 * alone.perplexity(texts)
    assert exact.perplexity(texts, "bound") > exact.perplexity(texts)
    with pytest.raises(tacit.errors.ModelError, match="completion"):
        exact.perplexity(texts, "other")


def test_a_single_topic_is_the_words_frequencies():
    texts = LETTERS.table["letter"]
    how = tacit.VIPS(noise_multiplier=0, steps=1)
    alone = tacit.fit(tacit.LDA(1, eta=1e-6), letters(0), how)
    counts = np.zeros(len(LETTERS.vocabulary))
    place = {word: i for i, word in enumerate(LETTERS.vocabulary)}
    for text in texts:
        for word in text[:-1].lower().split():
            counts[place[word]] += 1
    # At most two letters of an author are read: nearly all of them.
    np.testing.assert_allclose(alone.topics[0], counts / counts.sum(), atol=2e-3)


def test_words_and_saving(exact, tmp_path):
    table = exact.top_words(5)
    assert table.shape == (8, 5)
    assert set(table.to_numpy().ravel()) <= set(LETTERS.vocabulary)
    exact.save(tmp_path / "topics.nc")
    again = tacit.Posterior.load(tmp_path / "topics.nc")
    np.testing.assert_array_equal(again.topics, exact.topics)
    assert again.top_words(5).equals(table)
    np.testing.assert_array_equal(again.transform(["dear"]), exact.transform(["dear"]))


def schema(**options):
    return tacit.Schema(
        tacit.Tokens("words", VOCABULARY, max_length=500), neighbours="replace_one", **options
    )


def test_the_papers_documents_of_fixed_length():
    """Weighted and drawn again, to the same length: as good as each other, without the noise."""
    found = {}
    for weighting in ("length", "resampled"):
        model = tacit.LDA(8, weighting=weighting, length=100, clip=1.0)
        batches = {"sampling": Poisson(0.1), "steps": 30, "tau0": 1}
        how = tacit.VIPS(delta=1e-6, noise_multiplier=1e-3, **batches)
        posterior = tacit.fit(model, letters(1), how, noise="plugin")
        found[weighting] = posterior.perplexity(FRESH.table["letter"])
    assert found["length"] == pytest.approx(found["resampled"], rel=0.1)
    assert found["length"] < 110


STRANGE = {
    "nothing": csr_matrix((0, 20)),
    "empty documents": csr_matrix((50, 20)),
    "one word a million times": csr_matrix(np.eye(20)[[3] * 50] * 1e6),
    "one document": csr_matrix(np.ones((1, 20))),
    "odd numbers": csr_matrix(np.full((30, 20), np.nan)),
    "negative": csr_matrix(np.full((30, 20), -1.0)),
    "fractions": csr_matrix(np.full((30, 20), 1.5)),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("topics", [1, 3])
def test_strange_documents_are_no_error(kind, topics):
    behind = tacit.Wall(STRANGE[kind], schema(), budget=tacit.Budget(5, 1e-5), ledger=":memory:")
    n = None if STRANGE[kind].shape[0] else 100
    for options in ({}, {"sampling": Everyone()}):
        how = tacit.VIPS(1, 1e-6, n_units=n, **options)
        posterior = tacit.fit(tacit.LDA(topics), behind, how)
        assert np.all(np.isfinite(posterior.topics))
        np.testing.assert_allclose(posterior.topics.sum(axis=1), 1)


def test_documents_of_the_analyst():
    posterior = tacit.fit(
        tacit.LDA(2), tacit.Public(csr_matrix(np.ones((40, 20))), schema()), tacit.Exact()
    )
    shares = posterior.transform(csr_matrix(np.zeros((2, 20))))
    np.testing.assert_allclose(shares, 0.5)
    assert posterior.transform("w1 w2 unheard_of").shape == (1, 2)
    for bad, match in (
        (csr_matrix(np.ones((2, 3))), "20 columns"),
        (csr_matrix(np.full((2, 20), -1.0)), "not negative"),
        ([1, 2], "texts"),
        (tacit.Public(STRANGE["negative"], schema()), "behind a wall"),
    ):
        with pytest.raises(tacit.errors.ModelError, match=match):
            posterior.transform(bad)
    with pytest.raises(tacit.errors.ModelError, match="words of the vocabulary"):
        posterior.perplexity(["nothing known"])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_topics": 0}, "n_topics"),
        ({"n_topics": 2.5}, "n_topics"),
        ({"n_topics": 2, "alpha": 0}, "alpha"),
        ({"n_topics": 2, "eta": -1}, "eta"),
        ({"n_topics": 2, "length": 0}, "length"),
        ({"n_topics": 2, "weighting": "log"}, "root, length, resampled"),
    ],
)
def test_bad_options_say_what_to_write(options, match):
    with pytest.raises(tacit.errors.ModelError, match=match):
        tacit.LDA(**options)


def test_it_needs_documents():
    table = {"x": [1.0, 2.0]}
    described = tacit.Schema(tacit.Real("x", 0, 9), neighbours="replace_one")
    with pytest.raises(tacit.errors.ModelError, match="Tokens"):
        tacit.fit(tacit.LDA(2), tacit.Public(table, described), tacit.Exact())


def test_without_signal_all_topics_are_the_words_frequencies():
    """And not noise that documents seem to agree with."""
    rng = np.random.default_rng(0)
    frequency = rng.dirichlet(np.full(60, 0.5))
    counts = csr_matrix(rng.multinomial(40, frequency, size=3000).astype(float))
    schema = tacit.Schema(
        tacit.Tokens("words", [f"w{i}" for i in range(60)], 100), neighbours="replace_one"
    )
    found = tacit.fit(
        tacit.LDA(20), tacit.Public(counts, schema, seed=1), tacit.VIPS(0.5, 1e-5), progress=False
    )
    assert np.ptp(found.topics, axis=0).max() == 0
    # One release at a part of epsilon 0.5 knows shares of the roots of counts to about 0.005.
    assert np.abs(found.topics[0] - found.topics[0].mean()).sum() > 0.3
    low, high = found.interval(0.9)
    assert np.all(low[0] < high[0])
    mine = csr_matrix(rng.multinomial(40, frequency, size=200).astype(float))
    entropy = -(frequency * np.log(frequency)).sum()
    for method in ("completion", "bound"):
        assert np.log(found.perplexity(mine, method)) == pytest.approx(entropy, abs=0.15)


def test_perplexity_against_epsilon_is_drawn(exact):
    ax = Figure().subplots()
    axes = plots.perplexity({0.5: exact, math.inf: exact}, FRESH.table["letter"], ax=ax)
    assert axes is ax
    assert [line.get_label() for line in axes.get_lines()] == ["private", "no privacy"]
    with pytest.raises(tacit.errors.ModelError, match="by epsilon"):
        plots.perplexity({math.inf: exact}, FRESH.table["letter"])
    with pytest.raises(tacit.errors.ModelError, match="topic model"):
        plots.perplexity({1: "something else"}, FRESH.table["letter"])


@pytest.mark.parametrize("n", [600, 4000])
def test_few_documents_are_read_often_enough_without_noise(n):
    """Nearly as good as many steps by everyone, which a fixed number of batches would not be."""
    some = tacit.Public({k: v[:n] for k, v in LETTERS.table.items()}, LETTERS.schema())
    often = tacit.VIPS(noise_multiplier=0, sampling=Everyone(), steps=60, tau0=0, kappa=0)
    texts = FRESH.table["letter"]
    found = [tacit.fit(tacit.LDA(8), some, how).perplexity(texts) for how in (tacit.Exact(), often)]
    assert found[0] < 1.07 * found[1]


def test_steps_count_where_topics_are_all_alike():
    """The noise of frequencies is that of all releases but one, and not of a part of them."""
    single = lda._RootFrequency(np.array([40.0, 0.0, 9.0]), 3.0)
    seen = np.outer([36.0, 2.0, 9.0], np.full(4, 0.5))  # each topic's share, of norm 1 together
    both = single.with_steps(Sums({"sum": seen}, {"sum": 4.0}), topics=4)
    np.testing.assert_allclose(both.seen, 0.64 * single.seen + 0.36 * seen.sum(axis=1) / 2)
    assert both.sd == pytest.approx(3 * 4 / 5)
