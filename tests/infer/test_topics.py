"""Topics are found in noisy co-occurrence if their eigenvalues exceed the noise edge."""

import numpy as np
import pytest

from tacit.infer.topics import exceeds_noise_edge, factors


def noisy(size, themes, strength, seed):
    """Words in themes, each pair of one theme `strength` times together; noise of sd 1."""
    rng = np.random.default_rng(seed)
    theme = np.arange(size) % max(themes, 1)
    pairs = strength * (theme[:, None] == theme) * (themes > 0)
    noise = np.triu(rng.normal(size=(size, size)), 1)
    pairs = pairs + noise + noise.T
    np.fill_diagonal(pairs, 0.0)
    return pairs, theme


@pytest.mark.parametrize("size", [30, 100, 400])
def test_noise_alone_does_not_exceed_its_edge(size):
    # The largest eigenvalue of noise is beyond 1.05 times the edge in fewer than 1 of 30 at size
    # 30, and less often beyond: 6 or more of 30 have probability 1e-4; the seeds are fixed.
    found = [exceeds_noise_edge(noisy(size, 0, 0.0, seed)[0], 1, 1.0) for seed in range(30)]
    assert sum(found) < 6


@pytest.mark.parametrize("size", [60, 300])
def test_themes_beyond_the_noise_edge_are_found(size):
    # A theme has the eigenvalue strength * size / themes; noise ends at 2 sqrt(size).
    strength = 4 * 2 * np.sqrt(size) / (size / 3)
    pairs, theme = noisy(size, 3, strength, 0)
    assert exceeds_noise_edge(pairs, 2, 1.0)
    assert not exceeds_noise_edge(pairs, 10, 1.0)
    words = factors(pairs, 3, np.random.default_rng(0))
    assert words.shape == (size, 3)
    assert np.all(words >= 0)
    best = words.argmax(axis=1)
    assert np.mean([np.mean(best[theme == t] == np.bincount(best[theme == t]).argmax())
                    for t in range(3)]) > 0.95  # fmt: skip


@pytest.mark.parametrize("size", [1, 2])
def test_hardly_any_words(size):
    assert not exceeds_noise_edge(np.zeros((size, size)), 5, 1.0)
