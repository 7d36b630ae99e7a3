"""A smoke run of `privacy_for_free.py`: the facts that must not change with the seeds."""

import gzip
import re
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.methods.sgld import langevin_step

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]
FOLDER = Path(__file__).parents[2] / "reproductions"


@pytest.fixture(scope="module")
def privacy_for_free(tmp_path_factory):
    """The results of `privacy_for_free.py --quick`, on two simulated normals, and its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        import privacy_for_free as script
    folder = tmp_path_factory.mktemp("privacy_for_free")
    kept = script.Kept.load(folder / "scores.json")
    return script.reproduce(folder, script.QUICK, [], kept), folder


def test_the_page_of_privacy_for_free_shows_every_picture(privacy_for_free):
    _, folder = privacy_for_free
    shown = re.findall(r"!\[.*?\]\((.*?)\)", (folder / "privacy-for-free.md").read_text())
    assert {folder / name for name in shown} == set(folder.glob("*.png"))
    assert len(shown) == 2


def test_much_privacy_loss_is_as_good_as_no_privacy(privacy_for_free):
    # Epsilon 10, 800 rows, 3 coefficients: nothing but noise of a few rows' worth. Seeds are fixed.
    ((_, curves),) = privacy_for_free[0].methods
    plain = curves["no privacy"].accuracy[0].mean()
    for name in ("Tacit: Budget", "objective perturbation"):
        assert abs(curves[name].accuracy[1].mean() - plain) < 0.02, name


def test_the_papers_own_methods_are_as_it_prints_them(privacy_for_free):
    measures = sys.modules["privacy_for_free_measures"]
    problem = sys.modules["privacy_for_free_data"].gaussians(800)
    model, how = measures.wang(problem.model, problem.schema, Decimal("0.5"))
    # Likelihood and prior to the power epsilon / 4B, B = log(1 + e^5)
    power = 0.5 / (4 * np.log1p(np.exp(5)))
    public = tacit.Public(problem.split(0)[0], problem.schema, seed=1)
    release = tacit.fit(model, public, how, seed=1).releases[0]
    assert release.noise[0].scale == pytest.approx(1 / power, rel=1e-4)
    assert problem.model.prior_scale / model.prior_scale == pytest.approx(power**0.5)
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(300, 2)) / 3
    signs = np.where(rng.random(300) < 0.7, 1.0, -1.0)
    theta = measures.kifer(vectors, signs, 0.1, 2.0, np.random.default_rng(5))
    noise = np.sqrt(8 * np.log(2e5) + 4 * 2.0) / 2 * np.random.default_rng(5).standard_normal(2)
    gradient = vectors.T @ (signs / (1 + np.exp(signs * (vectors @ theta))))
    # where the gradient of the perturbed objective is zero
    np.testing.assert_allclose(gradient, noise + (0.1 + 0.25) * theta, atol=1e-4)
    ((_, curves),) = privacy_for_free[0].methods
    for name in (measures.KIFER, measures.WANG):
        assert curves[name].accuracy.shape == (2, 2)
    text = (privacy_for_free[1] / "privacy-for-free.md").read_text()
    assert "OPS at 4B less Kifer's" in " ".join(text.split())


def test_the_error_of_an_expectation_is_of_the_order_of_the_step(privacy_for_free):
    # Nothing random in the first part: Theorem 3, and the drift as printed, for which it fails.
    steps = sys.modules["step_sizes"]
    weak = privacy_for_free[0].weak
    for how in (steps.ALL, steps.BATCHES):
        np.testing.assert_allclose(weak[how].orders[-1], 1, atol=0.02)
        assert (np.abs(weak[how].errors[-1]) < 0.07).all()
    assert weak[steps.PRINTED].errors[-1, 1] == pytest.approx(-0.5, abs=0.02)
    # The grid's step is that of the sampler: moments of 200,000 steps, beyond 6 standard errors one
    # time in 1e8.
    theta, eta, known, n = -1.0, 0.05, 30.0, 200_000
    rng = np.random.default_rng(8)
    noisy = steps.gradient(np.full(n, theta)) + np.sqrt(known) * rng.standard_normal(n)
    after = langevin_step(np.full(n, theta), noisy, eta, known, 1.0, rng)
    mean = theta + eta / 2 * steps.gradient(np.array(theta))
    assert abs(after.mean() - mean) < 6 * np.sqrt(eta / n)
    assert abs(after.var() / eta - 1) < 6 * np.sqrt(2 / n)


def test_schedules_are_followed(privacy_for_free):
    found = privacy_for_free[0].followed
    assert found.settings == ((10.0, True), (10.0, False))
    for scores in found.scores.values():
        assert scores.shape == (2, 1, 3)
        assert np.isfinite(scores).all()


def test_scores_are_kept(privacy_for_free):
    script, folder = sys.modules["privacy_for_free"], privacy_for_free[1]
    kept = script.Kept.load(folder / "scores.json")
    problem = sys.modules["privacy_for_free_data"].gaussians(script.QUICK.rows)
    before = dict(kept.scores)
    again = script.measure(problem, "Tacit: Budget", script.QUICK.epsilons, 2, kept)
    ((_, curves),) = privacy_for_free[0].methods
    assert kept.scores == before
    np.testing.assert_array_equal(again.accuracy, curves["Tacit: Budget"].accuracy)


def test_no_files_no_problem(privacy_for_free, tmp_path):
    data = sys.modules["privacy_for_free_data"]
    assert data.abalone(tmp_path) is None
    assert data.adult(tmp_path) is None
    (tmp_path / "abalone").mkdir()
    names = ",".join(["sex", *data.ABALONE, "rings"])
    rows = "".join(f"M,{'.5,' * len(data.ABALONE)}{rings}\n" for rings in range(5, 15))
    with gzip.open(tmp_path / "abalone" / "abalone.csv.gz", "wt") as file:
        file.write(f"{names}\n{rows}")
    problem = data.abalone(tmp_path)
    train, test = problem.split(0)
    assert (problem.rows, len(train), len(test)) == (8, 8, 2)
    assert sorted(train["rings"].to_pylist() + list(test["rings"])) == list(range(5, 15))
