"""A smoke run of the reproductions: the facts that must not change with the seeds."""

import dataclasses
import gzip
import re
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

import tacit
from tacit.methods.sgld import langevin_step

pytestmark = pytest.mark.no_cover
FOLDER = Path(__file__).parent.parent / "reproductions"


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
        "paper: Laplace, draw": 2, "paper: one posterior draw (OPS)": 1 + curves.setting.heat,
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


@pytest.fixture(scope="module")
def war_logs(tmp_path_factory):
    """The results of `war_logs.py --quick` without declassified reports, and its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        import war_logs as script
    folder = tmp_path_factory.mktemp("war_logs")
    return script.reproduce(folder, script.QUICK), folder


def test_the_page_of_the_war_logs_shows_every_picture(war_logs):
    _, folder = war_logs
    text = (folder / "war-logs.md").read_text()
    shown = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert {folder / name for name in shown} == set(folder.glob("*.png"))
    assert len(shown) == 4
    assert "not part of any private release" in " ".join(text.split())


def test_noise_awareness_expects_more_of_unseen_cells(war_logs):
    # Epsilon 0.3, two splits of each panel: about 0.13 nats a row ahead of the paper's method and
    # 0.3 ahead of OPS.
    for one in war_logs[0].found:
        ours, *others = (
            one.hidden[name].by_row[0].mean()
            for name in (
                "Tacit: noise-aware, least noise (default)", "paper: Laplace",
                "paper: OPS, truncated at 1/(10 levels)",
                "paper: OPS, truncated at 1/(100 levels)",
            )
        )  # fmt: skip
        assert ours > max(others), one.title


def test_one_state_needs_little_data(war_logs):
    # Epsilon 3: counts of all rows have noise of about 5 among at least 5,000.
    for one in war_logs[0].found:
        plain = one.naive["no privacy"].by_row[1]
        for name in ("paper: Laplace", "Tacit: noise-aware, least noise (default)"):
            assert np.abs(one.naive[name].by_row[1] - plain).max() < 0.02


def test_maps_are_those_of_the_truth(war_logs):
    # 300 rows in a cell, two states, epsilon 5.
    maps = war_logs[0].mapped[1][0]
    assert maps.agrees["Tacit: noise-aware, least noise (default)"] > 0.9
    assert "paper: OPS, last 10 sweeps" in maps.not_private


def test_profiles_by_ops_are_a_draw_of_a_tempered_posterior(war_logs):
    # The panel of the maps above, total variation from no privacy. Seeds are fixed.
    profiles = war_logs[0].mapped[1][1]
    ours, ops = "Tacit: noise-aware, least noise (default)", "paper: OPS, last sweep"
    assert 10 * profiles.apart[ours] < profiles.apart[ops] < 0.2
    for name, drawn in profiles.ops.items():
        assert drawn.shape == profiles.plain[name].shape


def test_held_out_likelihoods_are_those_of_the_library(war_logs):
    measures, panel = sys.modules["war_logs_measures"], war_logs[0].panels[0]
    cells = next(measures.random_splits(panel, 1))
    effort = measures.Effort(draws=20, chains=1)
    fitted = measures.posterior(
        measures.AWARE, panel.without(cells), 3, 3.0, 1, held_out=cells, effort=effort
    )
    where = np.argwhere(panel.joint * cells.reshape(*cells.shape, *[1] * len(panel.features)))
    rows = panel.joint[tuple(where.T)]
    table = {
        name: np.array(some, dtype=object)[codes]
        for (name, some), codes in zip(panel.levels.items(), where.T, strict=True)
    }
    expected = rows @ fitted.log_likelihood(table) / rows.sum()
    assert measures.log_likelihoods(fitted, panel, cells)[0] == pytest.approx(expected)


def test_a_study_file_gives_a_panel(war_logs, tmp_path):
    data = sys.modules["war_logs_data"]
    (tmp_path / "log.csv").write_text("where,when,kind\na,2020-01-03,x\nb,2020-02,y\nb,,x\n")
    (tmp_path / "study.toml").write_text(
        """
[data]
source = "log.csv"
ledger = "log.ledger"
[schema]
neighbours = "replace_one"
columns = [
  { name = "where", type = "categorical", levels = ["a", "b", "c"] },
  { name = "when", type = "time", start = "2020-01", end = "2020-04", every = "month" },
  { name = "kind", type = "categorical", levels = ["x", "y"] },
]
[budget]
epsilon = 1.0
[[analysis]]
name = "states"
model = "HMM"
n_states = 2
sequence = "where"
time = "when"
emissions = ["kind"]
how = { mechanism = "Laplace", epsilon = 1.0 }
"""
    )
    panel = data.from_study(tmp_path / "study.toml")
    assert panel.shape == (3, 4)  # public levels, with or without rows
    assert panel.joint[0, 0].tolist() == [1, 0]
    assert panel.joint.sum() == 2  # a row without a month is in no cell
    assert not (tmp_path / "log.ledger").exists()


def test_no_declassified_reports_no_panel(war_logs, tmp_path):
    assert sys.modules["war_logs_data"].declassified(tmp_path) is None


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
    pull = vectors.T @ (signs / (1 + np.exp(signs * (vectors @ theta))))
    # where the gradient of the perturbed objective is zero
    np.testing.assert_allclose(pull, noise + (0.1 + 0.25) * theta, atol=1e-4)
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


@pytest.fixture(scope="module")
def vips(tmp_path_factory):
    """The results of `vips.py --quick`, on 2,000 simulated documents, and its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        import vips as script
    folder = tmp_path_factory.mktemp("vips")
    kept = script.Kept.load(folder / "topics.json")
    return script.reproduce(folder, script.QUICK, [], kept), folder


def test_the_page_of_vips_shows_every_picture(vips):
    _, folder = vips
    text = (folder / "vips.md").read_text()
    shown = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert {folder / name for name in shown} == set(folder.glob("*.png"))
    assert len(shown) == 1
    assert "no private release" in " ".join(text.split())


def test_topics_know_more_than_frequencies(vips):
    # Epsilon 5, 2,000 documents of 200 words, 5 topics: 50 without privacy, 78 by frequencies
    # alone, about 45 by default; the paper's need more noise with each thing that it takes away.
    measures, (one,) = sys.modules["vips_measures"], vips[0]
    for what in ("completion", "bound"):
        score = {method: found[what] for (method, _), found in one.scores.items()}
        assert score[measures.NONE] < 0.8 * score[measures.UNIGRAM]
        assert score[measures.OURS] < 0.8 * score[measures.UNIGRAM]
        assert score[measures.OURS] < score[measures.PAPER] < score[measures.STRONG]
        assert score[measures.PAPER] < score[measures.UNCLIPPED]


def test_the_clip_shortens_uneven_documents(vips):
    measures, (one,) = sys.modules["vips_measures"], vips[0]
    words = one.corpus.words
    topics = np.full((len(words), 1), 1e6)
    # One topic: a document of m different words once each has norm 500 / sqrt(m), and m = 100 is
    # where the clip of 50 begins.
    counts = np.zeros((4, len(words)))
    for row, m in enumerate((1, 99, 101, 200)):
        counts[row, :m] = 1
    made = dataclasses.replace(one.corpus, train=csr_matrix(counts), topics=1)
    assert measures.clipped(made, topics) == 0.5


def test_kept_topics_are_not_fitted_again(vips, monkeypatch):
    script, (_, folder) = sys.modules["vips"], vips
    monkeypatch.delattr(sys.modules["vips_measures"], "posterior")
    kept = script.Kept.load(folder / "topics.json")
    (again,) = script.reproduce(folder, script.QUICK, [], kept)
    assert again.scores == vips[0][0].scores


def test_a_prefix_of_wikipedia(vips, tmp_path):
    data = sys.modules["vips_data"]
    assert data.wikipedia(tmp_path) == []
    home = tmp_path / "wikipedia_bow"
    home.mkdir()
    counts = csr_matrix(np.tile([[30, 0], [0, 19], [5, 15]], (4, 1)))
    save_npz(home / "wikipedia_bow.npz", counts)
    (home / "vocab.txt").write_text("station\nline\n")
    split = "".join(f"{'test' if i == 0 else 'train'}\n" for i in range(12))
    with gzip.open(home / "docs.csv.gz", "wt") as file:
        file.write(f"split\n{split}")
    (home / "load_wikipedia.py").write_text(
        "import scipy.sparse\n"
        "def load(npz, vocab):\n"
        "    return scipy.sparse.load_npz(npz), vocab.read_text().split()\n"
    )
    every, some = data.wikipedia(tmp_path, 3)
    assert (every.size, some.size, every.test.shape) == (7, 3, (1, 2))
    np.testing.assert_array_equal(some.train.toarray(), [[5, 15], [30, 0], [5, 15]])
    assert [one.size for one in data.wikipedia(tmp_path, 10)] == [7]


@pytest.fixture(scope="module")
def logistic(privacy_for_free):
    """The module benchmarks/logistic.py, which has its measures from the reproduction."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        patch.syspath_prepend(FOLDER.parent / "benchmarks")
        import logistic
    return logistic


def test_being_behind_is_said(logistic):
    scores = np.tile([0.84, 0.85, 0.86], (5, 1))
    worse = scores.copy()
    worse[2] -= 0.1  # epsilon 1
    better = logistic.Curve(logistic.EPSILONS, scores, -scores)
    said = logistic.verdict(logistic.Curve(logistic.EPSILONS, worse, -scores), better)
    assert "Targets missed at epsilon: 1." in said
    assert "In accuracy Budget is behind" in said
    assert said.count("epsilon: 1.") == 2
    assert said.endswith("epsilon: none.")


def test_coverage_is_measured(logistic):
    # 20 regressions of 2 coefficients: fewer than half of the 90% intervals hold the truth one
    # time in 1e6 even if both coefficients of a regression stand or fall together.
    case = logistic.Simulated("uniform", size=2, sd=1.0, epsilon=2.0, repeats=20, rows=2000)
    aware, plugin = (logistic.cover(case, noise) for noise in ("aware", "plugin"))
    assert aware.coefficients >= 0.5
    assert plugin.width < aware.width
