"""A smoke run of `conjugate.py`: the facts that must not change with the seeds."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_cover
FOLDER = Path(__file__).parents[2] / "reproductions"


@pytest.fixture(scope="module")
def conjugate(tmp_path_factory):
    """The results of `conjugate.py --quick`, and the folder that it wrote."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        import conjugate as script
    folder = tmp_path_factory.mktemp("conjugate")
    return script.reproduce(folder, script.QUICK), folder


def test_the_page_shows_every_picture(conjugate):
    _, folder = conjugate
    shown = re.findall(r"!\[.*?\]\((.*?)\)", (folder / "conjugate.md").read_text())
    assert {folder / name for name in shown} == set(folder.glob("*.png"))
    assert len(shown) == 5


def test_relative_efficiencies(conjugate):
    # n = 3,000, epsilon 1. A band of six standard errors: a false alarm in 1e-8 for each number
    # (with fresh seeds; they are fixed). The finite n shifts the limits by less than 0.01.
    curves = conjugate[0].efficiency[0]
    limits = {
        "no privacy: mean": 1, "no privacy: draw": 2, "paper: Laplace, mean": 1,
        "paper: Laplace, draw": 2,
        "paper: one posterior draw (OPS)": 1 + curves.setting.temperature,
        "Tacit: noise-aware mean": 1, "Tacit: noise-aware draw": 2,
    }  # fmt: skip
    for name, limit in limits.items():
        assert abs(curves.mean[name][-1] - limit) < 6 * curves.error[name][-1] + 0.01, name


def test_noise_awareness_needs_fewer_records(conjugate):
    # n = 100, epsilon 0.1: about 7.3 against 18.3 (means), over twelve standard errors apart.
    curves = conjugate[0].efficiency[1]
    assert curves.mean["Tacit: noise-aware mean"][0] < curves.mean["paper: Laplace, mean"][0]


def test_the_adversary_comes_within_one_percent_of_the_bound(conjugate):
    # Nothing random.
    attacks = conjugate[0].attacks
    for attack in attacks.values():
        assert 0.99 * attack.bound < attack.cost[-1] < attack.bound
        assert attack.balanced[-1] < 0.75 * attack.bound
    assert attacks["replace_one"].bound == pytest.approx(2 * attacks["add_remove"].bound)


def test_divergences_vanish(conjugate):
    # From n = 100 to 3,000 the means fall by a factor of about ten, and their standard errors
    # leave five of those to a factor of three: a false alarm in 1e-6.
    found = conjugate[0].divergence
    for values in (found.paper, found.ours):
        assert (values >= -1e-9).all()
        assert values[-1].mean() < values[-2].mean() / 3
    for printed, corrected in conjugate[0].lemma5.values():
        assert printed > 0.1  # about 0.28, with a standard error of 0.01
        assert corrected == 0


def test_curves_are_those_of_the_library(conjugate):
    # Seven gaps in standard errors: beyond 6 one time in 1e8.
    assert all(abs(gap) < 6 for *_, gap in conjugate[0].check)
