"""Published and hand-checked figures, each to one per cent."""

import math

import pytest

from tacit.accounting import epsilon, exponential_epsilon, noise_multiplier
from tacit.accounting.rdp import advanced_composition

LDA = {"noise_multiplier": 1.24, "steps": 20, "sampling_rate": 0.05, "delta": 1e-4}
SMALL = {"steps": 1000, "sampling_rate": 0.01, "delta": 1e-5}
LANGEVIN = {"steps": 32641, "sampling_rate": 180 / 32561, "delta": 1e-5}


@pytest.mark.parametrize(
    ("geometry", "accountant", "expected"),
    [
        ("box", "rdp-classic", 2.383),  # the paper's own: sensitivity taken as one norm
        ("nonnegative", "rdp-classic", 4.232),
        ("nonnegative", "rdp", 3.482),
        ("nonnegative", "pld", 2.161),
        ("free", "pld", 5.05),
    ],
)
def test_private_topic_model_without_replacement(geometry, accountant, expected):
    found = epsilon(
        **LDA,
        neighbours="replace_one",
        sampling="wor",
        geometry=geometry,
        accountant=accountant,
    )
    assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("neighbours", "geometry", "expected"),
    [
        ("add_remove", "free", 0.932),
        ("replace_one", "free", 1.303),
        ("replace_one", "nonnegative", 1.074),
    ],
)
def test_private_topic_model_with_poisson_sampling(neighbours, geometry, expected):
    found = epsilon(**LDA, neighbours=neighbours, geometry=geometry)
    assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("neighbours", "expected"), [("add_remove", 4.887), ("replace_one", 10.997)]
)
def test_one_gaussian(neighbours, expected):
    found = epsilon(noise_multiplier=1, delta=1e-6, neighbours=neighbours)
    assert found == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("neighbours", "sampling", "geometry", "at_one", "at_two"),
    [
        ("add_remove", "poisson", "free", 1.829, 0.624),
        ("replace_one", "poisson", "free", 2.844, 1.206),
        ("replace_one", "poisson", "nonnegative", 2.396, 0.878),
        ("replace_one", "wor", "free", 14.82, 2.199),
    ],
)
def test_a_thousand_small_batches(neighbours, sampling, geometry, at_one, at_two):
    for multiplier, expected in ((1.0, at_one), (2.0, at_two)):
        found = epsilon(
            noise_multiplier=multiplier,
            **SMALL,
            neighbours=neighbours,
            sampling=sampling,
            geometry=geometry,
        )
        assert found == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("target", "add_remove", "replace_one"), [(0.1, 30.7, 61.5), (1, 3.80, 7.46), (10, 0.797, 1.06)]
)
def test_langevin_dynamics(target, add_remove, replace_one):
    """What a search for the multiplier would find, from the two costs that decide it."""
    for neighbours, expected in (("add_remove", add_remove), ("replace_one", replace_one)):
        enough = {"noise_multiplier": 1.01 * expected, "neighbours": neighbours, **LANGEVIN}
        assert (
            epsilon(**enough) <= target < epsilon(**enough | {"noise_multiplier": 0.99 * expected})
        )


def test_the_search_finds_the_multiplier_of_langevin_dynamics():
    needed = noise_multiplier(epsilon=1, **LANGEVIN, neighbours="add_remove")
    assert needed == pytest.approx(3.80, rel=0.01)


@pytest.mark.parametrize(("passes", "expected"), [(1, 1.833), (10, 3.175)])
def test_langevin_dynamics_without_replacement(passes, expected):
    needed = noise_multiplier(
        epsilon=1,
        steps=100 * passes,
        sampling_rate=0.01,
        delta=1e-5,
        neighbours="replace_one",
        sampling="wor",
    )
    assert needed == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("one", "basic", "advanced", "ranged"), [(1.0, 400, 783, 96), (0.1, 40, 13.8, 4.73)]
)
def test_four_hundred_gibbs_updates(one, basic, advanced, ranged):
    assert 400 * one == pytest.approx(basic)
    assert advanced_composition(one, 400, 1e-5) == pytest.approx(advanced, rel=0.01)
    assert exponential_epsilon(one, 400, 1e-5) == pytest.approx(ranged, rel=0.01)


def test_the_textbook_rescaling_would_be_too_small():
    # Dividing the noise by sqrt(2) in the add/remove formula gives 1.798 and 0.821.
    for multiplier, wrong in ((1.0, 1.798), (2.0, 0.821)):
        right = epsilon(
            noise_multiplier=multiplier, **SMALL, neighbours="replace_one", geometry="nonnegative"
        )
        assert right > 1.05 * wrong
    assert math.isclose(
        epsilon(
            noise_multiplier=1 * math.sqrt(2),
            delta=1e-6,
            neighbours="replace_one",
            geometry="nonnegative",
        ),
        epsilon(noise_multiplier=1, delta=1e-6, neighbours="add_remove"),
        rel_tol=1e-9,
    )
