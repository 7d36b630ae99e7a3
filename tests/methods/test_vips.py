"""What VIPS pays, asks and moves by; the models have tests of their own."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import tacit
from tacit.accounting import epsilon, gaussian_mu
from tacit.methods.method import Task
from tacit.methods.vips import plan_of
from tacit.models import lda
from tacit.spec.variational import FitSetting, Sums
from tacit.subsampling import Everyone, Poisson, WithoutReplacement

WORDS = [f"w{i}" for i in range(30)]


def schema(neighbours="replace_one", **options):
    tokens = tacit.Tokens("words", WORDS, max_length=100)
    return tacit.Schema(tokens, neighbours=neighbours, **options)


def corpus(n=600, seed=0):
    """Half the documents use the first words, half the last."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson(0.2, size=(n, 30))
    counts[: n // 2, :10] += rng.poisson(3, size=(n // 2, 10))
    counts[n // 2 :, 20:] += rng.poisson(3, size=(n - n // 2, 10))
    return csr_matrix(counts)


def wall(neighbours="replace_one", n=600, ledger=":memory:", **options):
    budget = tacit.Budget(10, 1e-4)
    return tacit.Wall(corpus(n), schema(neighbours, **options), budget=budget, ledger=ledger)


def public(**options):
    return tacit.Public(corpus(), schema(**options), seed=1)


MODEL = tacit.LDA(2)


def fitted(units=600, aware=False):
    return MODEL.variational(schema(), FitSetting(units, 1.0, aware=aware))


def plan(how, units=600, neighbours="replace_one", aware=False):
    variational = fitted(units, aware)
    return plan_of(how, variational, asked(variational), neighbours)


def asked(variational):
    """A question of the form that steps ask."""
    if variational.preview is not None:
        return variational.preview
    sums = variational.start(np.random.default_rng(0))
    return variational.question((variational.initial or variational.maximise)(sums))


@pytest.mark.parametrize("neighbours", ["replace_one", "add_remove"])
@pytest.mark.parametrize(
    "options", [{}, {"sampling": Poisson(1 / 12)}, {"sampling": Poisson(1 / 12), "steps": 36}]
)
def test_it_costs_what_was_said_and_nearly_all_of_it(neighbours, options):
    behind = wall(neighbours, max_units=600 if neighbours == "add_remove" else None)
    posterior = tacit.fit(MODEL, behind, tacit.VIPS(1.5, 1e-5, **options))
    assert 1.49 < posterior.certificate.epsilon <= 1.5
    assert float(behind.remaining.epsilon) == pytest.approx(10 - 1.5, abs=0.01)


def test_batches_are_as_large_as_was_asked_and_steps_as_many():
    for how, rate, count in (
        (tacit.VIPS(1, 1e-5, sampling=Poisson(0.1)), 0.1, 10),
        (tacit.VIPS(1, 1e-5, sampling=Poisson(0.1), steps=20), 0.1, 20),
        (tacit.VIPS(1, 1e-5, sampling=Poisson(0.1), steps=5), 0.1, 5),
        (tacit.VIPS(1, 1e-5, sampling=WithoutReplacement(60, 600)), 0.1, 10),
        (tacit.VIPS(1, 1e-5, sampling=WithoutReplacement(600, 600), steps=3), 1.0, 3),
        (tacit.VIPS(1, 1e-5, steps=7), 1.0, 7),
    ):
        steps = plan(how).steps[-1 if rate < 1 else 0 :]
        sampled = [part for part in plan(how).steps if part.sampling.rate == pytest.approx(rate)]
        assert sum(part.count for part in sampled) == count
        assert steps[-1].sampling.rate == pytest.approx(rate)


def test_pilot_queries_have_their_share_of_the_budget_whatever_batches_steps_have():
    """By everyone, with the noise of their share: what they see does not depend on batches."""
    for options in ({}, {"sampling": Poisson(0.1)}, {"sampling": Poisson(0.01), "steps": 400}):
        pilots = plan(tacit.VIPS(1, 1e-5, **options), aware=True).steps[:2]
        assert [part.sampling.rate for part in pilots] == [1, 1]
        shares = [pilot.share for pilot in fitted(aware=True).pilots]
        alone = np.sqrt(2) / gaussian_mu(1, 1e-5)  # two documents, neither with negative counts
        noise = [part.mechanism.noise_multiplier for part in pilots]
        np.testing.assert_allclose(noise, alone / np.sqrt(shares), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "times"), [({"steps": 9}, 9), ({"sampling": Poisson(1 / 30)}, 5)]
)
def test_parameters_follow_small_batches_a_few_times(monkeypatch, options, times):
    made = []
    clear = lda.denoised
    monkeypatch.setattr(lda, "denoised", lambda *given: made.append(1) or clear(*given))
    tacit.fit(MODEL, wall(), tacit.VIPS(3, 1e-5, **options))
    assert len(made) == times


def test_the_papers_accountants_need_more_noise():
    options = {"sampling": Poisson(0.1), "steps": 50}
    noise = {
        kind: plan(tacit.VIPS(2, 1e-5, accountant=kind, **options)).steps[-1].mechanism
        for kind in ("pld", "rdp", "strong")
    }
    sizes = [noise[kind].noise_multiplier for kind in ("pld", "rdp", "strong")]
    assert sizes[0] < sizes[1] < sizes[2]
    # The ledger is charged what the noise is worth, not what the weaker theorem says of it.
    posterior = tacit.fit(MODEL, wall(), tacit.VIPS(2, 1e-5, accountant="strong", **options))
    assert posterior.certificate.epsilon < 1.5


def test_noise_by_its_multiplier_costs_what_it_costs():
    how = tacit.VIPS(delta=1e-5, noise_multiplier=3.0, sampling=Poisson(0.1))
    posterior = tacit.fit(MODEL, wall(), how, noise="plugin")
    count = sum(part.count for part in plan(how).steps)
    expected = epsilon(
        noise_multiplier=3.0, steps=count, sampling_rate=0.1, delta=1e-5,
        neighbours="replace_one", geometry="nonnegative",
    )  # fmt: skip
    assert float(posterior.certificate.epsilon) == pytest.approx(expected, rel=1e-3)


def test_without_noise_is_for_public_data():
    assert tacit.fit(MODEL, public(), tacit.Exact()).certificate.data == "public data"
    behind = wall()
    with pytest.raises(tacit.errors.BudgetError, match="Exact"):
        tacit.fit(MODEL, behind, tacit.VIPS(noise_multiplier=0))
    with pytest.raises(tacit.TacitError):
        tacit.fit(MODEL, behind, tacit.Exact())
    assert behind.remaining.epsilon == 10


def test_a_budget_means_vips():
    posterior = tacit.fit(MODEL, wall(), tacit.Budget(1, 1e-5))
    assert 0.99 < posterior.certificate.epsilon <= 1
    with pytest.raises(tacit.errors.BudgetError, match=r"Budget\(1, 1e-6\)"):
        tacit.fit(MODEL, wall(), tacit.Budget(1))


def test_under_add_remove_it_asks_how_many_there_are():
    behind = wall("add_remove")
    with pytest.raises(tacit.errors.ModelError, match=r"VIPS\(..., n_units=10_000\)"):
        tacit.fit(MODEL, behind, tacit.VIPS(1, 1e-5))
    assert behind.remaining.epsilon == 10
    tacit.fit(MODEL, behind, tacit.VIPS(1, 1e-5, n_units=600))


def test_a_name_is_replayed_for_nothing(tmp_path):
    behind = wall(ledger=tmp_path / "a.ledger")
    how = tacit.VIPS(1, 1e-5, steps=2)
    first = tacit.fit(MODEL, behind, how, name="topics")
    left = behind.remaining.epsilon
    again = tacit.fit(MODEL, wall(ledger=tmp_path / "a.ledger"), how, name="topics")
    assert behind.remaining.epsilon == left
    np.testing.assert_array_equal(first.topics, again.topics)


def test_moves_follow_the_schedule():
    def first(**options):
        task = Task(MODEL, schema(), 600, {"noise": "plugin"})
        return tacit.VIPS(1, 1e-5, **options).start(task).fit.step_size(1)

    batches = Poisson(1 / 60)
    assert first(sampling=batches, tau0=1024, kappa=0.7) == 1025**-0.7
    assert first() == 1
    assert first(sampling=batches) == 2**-0.7


@pytest.mark.parametrize("clamp", [False, True])
def test_negatives_are_set_to_zero_in_every_step_if_asked(clamp):
    """Equation 2 of the paper; by default the average of steps is clamped, which has less bias."""
    how = tacit.VIPS(
        0.2, 1e-5, sampling=Poisson(0.1), steps=5, tau0=2, kappa=0.7, clamp_steps=clamp
    )
    task = Task(MODEL, schema(), 600, {"noise": "plugin"}, private=False)
    (payment,) = how.plan(task).payments
    lease, state = public().prepay(payment), how.start(task)
    want = state.sums.values["sum"]
    for step in range(1, 6):
        release = lease.release(how.ask(state))
        seen = release.table("sum").value
        assert seen.min() < 0
        share = (2 + step) ** -0.7
        want = (1 - share) * want + share * 10 * (np.maximum(seen, 0) if clamp else seen)
        state = how.tell(state, release)
    np.testing.assert_allclose(state.sums.values["sum"], want)
    assert (state.sums.values["sum"].min() >= 0) == clamp


def test_clamping_is_refused_where_it_makes_no_sense():
    how = tacit.VIPS(1, 1e-5, clamp_steps=True)
    with pytest.raises(tacit.errors.ModelError, match='Expected noise="plugin"'):
        tacit.fit(MODEL, public(), how)
    tacit.fit(MODEL, public(), how, noise="plugin", draws=10)
    columns = tacit.Categorical("y", ["no", "yes"]), tacit.Real("x", -1, 1)
    both = tacit.Public(
        {"y": ["no", "yes"], "x": [0.0, 1.0]}, tacit.Schema(*columns, neighbours="replace_one")
    )
    with pytest.raises(tacit.errors.ModelError, match="sums of LogisticRegression may be negative"):
        tacit.fit(tacit.LogisticRegression("y", ["x"]), both, how, noise="plugin")


def test_averages_know_their_noise():
    """The standard deviation of a weighted mean of independent noise."""
    a = Sums({"s": np.array([4.0])}, {"s": 3.0})
    b = Sums({"s": np.array([8.0])}, {"s": 4.0})
    mean = a.average(b, 0.25)
    assert mean.values["s"] == 5
    assert mean.sd["s"] == pytest.approx(np.hypot(0.75 * 3, 0.25 * 4))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"epsilon": 1}, "delta"),
        ({"epsilon": None, "delta": 1e-5}, "epsilon"),
        ({"epsilon": 1, "delta": 1e-5, "steps": 0}, "steps"),
        ({"epsilon": 1, "delta": 1e-5, "steps": 2.5}, "steps"),
        ({"epsilon": 1, "delta": 1e-5, "kappa": -1}, "kappa"),
        ({"epsilon": 1, "delta": 1e-5, "tau0": "1"}, "tau0"),
        ({"epsilon": 1, "delta": 1e-5, "sampling": "both"}, "Expected sampling to be"),
        ({"epsilon": 1, "delta": 1e-5, "accountant": "zcdp"}, "pld, rdp, strong"),
        ({"epsilon": 1, "delta": 1e-5, "noise_multiplier": 1}, "not both"),
        ({"noise_multiplier": -1}, "noise_multiplier"),
        ({"epsilon": 1, "delta": 1e-5, "clamp_steps": "paper"}, "clamp_steps"),
    ],
)
def test_bad_options_say_what_to_write(options, match):
    with pytest.raises(tacit.TacitError, match=match):
        tacit.VIPS(**options)


def test_a_batch_of_fixed_size_needs_a_public_number_of_units():
    how = tacit.VIPS(1, 1e-5, sampling=WithoutReplacement(60, 600), n_units=600)
    with pytest.raises(tacit.errors.BudgetError, match="add_remove"):
        tacit.fit(MODEL, wall("add_remove"), how)


TABLE = tacit.Schema(
    tacit.Real("x", -1, 1), tacit.Categorical("y", ["no", "yes"]), neighbours="replace_one"
)


@pytest.mark.parametrize(
    "options",
    [
        {"noise_multiplier": 0},
        {"epsilon": 5, "accountant": "rdp"},
        {"epsilon": 5, "accountant": "strong"},
    ],
)
def test_pilot_queries_are_full_batch_whatever_chooses_the_noise(options):
    """A look at a batch, taken for one at everyone, made coefficients small by the batch's rate."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 5000)
    y = np.where(rng.random(5000) < 1 / (1 + np.exp(-2 * x)), "yes", "no")
    how = tacit.VIPS(delta=1e-6, sampling=Poisson(0.1), steps=30, **options)
    data = tacit.Public({"x": x, "y": y}, TABLE, seed=1)
    found = tacit.fit(tacit.LogisticRegression("y", ["x"]), data, how, seed=1)
    assert found.mean()[0] == pytest.approx(2, abs=0.4)


def test_a_batch_of_everyone_is_everyone():
    """As many steps, moves and noise as without batches."""
    found = [
        tacit.fit(MODEL, public(), tacit.VIPS(3, 1e-5, sampling=batches)).topics
        for batches in (Everyone(), Poisson(1.0), WithoutReplacement(600, 600))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_a_wrong_number_of_units_costs_nothing():
    """Where it is public, what the wall says counts."""
    behind = wall()
    how = tacit.VIPS(1, 1e-5, sampling=WithoutReplacement(60, 600), n_units=10_000)
    tacit.fit(MODEL, behind, how)
    empty = tacit.Wall(
        csr_matrix((0, 30)), schema(), budget=tacit.Budget(1, 1e-4), ledger=":memory:"
    )
    with pytest.raises(tacit.errors.ModelError, match="there are none"):
        tacit.fit(MODEL, empty, how)
    assert empty.remaining.epsilon == 1
