"""Hidden states through the wall: laws against enumeration, ranges over all small data sets.

Statistical tests have a false-alarm rate of 1e-6 or are seeded; ranges are computed, not sampled.
"""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from scipy.special import betainc, betaln, logsumexp
from scipy.stats import chi2, kstest

import tacit
from tacit.accounting.bounded_range import exponential_epsilon
from tacit.draws import states as _states
from tacit.draws.states import resolve_states
from tacit.public import seeded_entropy
from tacit.sources.data import open_data
from tacit.spec.hidden_states import Panel, StateChain, StatePaths, StateProfiles
from tacit.spec.mechanisms import Exact, Exponential
from tacit.spec.wire import digest
from tacit.wall.answers import calibrated, read
from tacit.wall.statistics.statistic import Statistic

ALARM = 1e-6
GRID = 2.0**-40
PANEL = Panel("region", "month", ("a", "b"))
START = np.array([0.6, 0.4])
MOVE = np.array([[0.7, 0.3], [0.4, 0.6]])
PROFILES = (np.array([[0.8, 0.2], [0.3, 0.7]]), np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]]))
MISSING = ""


def schema(neighbours="replace_one", rows=None, regions=2, months=3):
    unit = None if rows is None else "who"
    return tacit.Schema(
        tacit.Categorical("region", [f"r{i}" for i in range(regions)]),
        tacit.Integer("month", 1, months),
        tacit.Categorical("a", ["no", "yes"]),
        tacit.Categorical("b", ["low", "mid", "high"]),
        unit=unit,
        max_rows_per_unit=rows,
        neighbours=neighbours,
    )


def table_of(units):
    """Units given as lists of rows (region, month, a, b)."""
    rows = [(i, *row) for i, unit in enumerate(units) for row in unit]
    names = ("who", "region", "month", "a", "b")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


ROWS = [
    ("r0", 1, "yes", "high"), ("r0", 1, "yes", MISSING), ("r0", 2, "no", "low"),
    ("r0", 3, MISSING, "mid"), ("r1", 1, "no", "high"), ("r1", 3, "yes", "high"),
    ("r1", 3, MISSING, MISSING), (MISSING, 2, "no", "low"), ("r1", 9, "no", "low"),
]  # fmt: skip
DATA = table_of([[row] for row in ROWS])


def wall(neighbours="replace_one", budget=(1000, 0.1), **options):
    held = schema(neighbours, **options)
    return tacit.Wall(DATA, held, budget=tacit.Budget(*budget), ledger=":memory:")


def statistic_of(query, data=DATA, held=None):
    resolved = resolve_states(query, held or schema())
    return resolved, read(open_data(data, resolved.schema), resolved, ())


def tables_of(resolved, steps):
    """The wall's counts as arrays (region, month, level), one for each emission."""
    ends = np.cumsum([block.size for block in resolved.tables])[:-1]
    parts = np.split(np.asarray(steps), ends)
    return [part.reshape(block.shape) for part, block in zip(parts, resolved.tables)]


# Paths


def all_paths(regions, months, states=2):
    return np.array(list(product(range(states), repeat=regions * months))).reshape(
        -1, regions, months
    )


def log_chain(z, start=START, move=MOVE):
    return np.log(start)[z[:, 0]].sum() + np.log(move)[z[:, :-1], z[:, 1:]].sum()


def log_likelihood(z, tables, profiles=PROFILES):
    return sum(
        (table * np.log(profile)[z]).sum() for table, profile in zip(tables, profiles, strict=True)
    )


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_paths_have_the_law_of_the_enumeration(temperature):
    resolved, statistic = statistic_of(StatePaths(PANEL, START, MOVE, PROFILES))
    # by hand: which rows are counted, and where
    counts = [np.zeros((2, 3, 2)), np.zeros((2, 3, 3))]
    levels = {"no": 0, "yes": 1, "low": 0, "mid": 1, "high": 2}
    for region, month, *emissions in ROWS:
        if region and month <= 3:
            for count, seen in zip(counts, emissions):
                if seen:
                    count[int(region[1]), month - 1, levels[seen]] += 1
    for ours, theirs in zip(counts, tables_of(resolved, statistic.integers)):
        np.testing.assert_array_equal(ours, theirs)
    z = all_paths(2, 3)
    log = np.array([log_chain(path) + log_likelihood(path, counts) / temperature for path in z])
    probability = np.exp(log - logsumexp(log))
    n, words = 8000, seeded_entropy("paths")
    noise = resolved.at_temperature(temperature)
    drawn = np.array([resolved.sample(statistic, noise, words) for _ in range(n)])
    code = drawn @ 2 ** np.arange(5, -1, -1)
    seen, expected = np.bincount(code, minlength=64), n * probability
    rare = expected < 5  # together one cell
    rest = seen[rare].sum() - expected[rare].sum()
    distance = ((seen - expected) ** 2 / expected)[~rare].sum()
    distance += rest**2 / max(expected[rare].sum(), 5.0)
    assert chi2.sf(distance, (~rare).sum()) > ALARM
    # The test can tell: the other temperature does not fit.
    other = np.array([log_chain(p) + log_likelihood(p, counts) / (4 - temperature) for p in z])
    other = np.exp(other - logsumexp(other)) * n
    many = other > 5
    assert chi2.sf(((seen - other) ** 2 / other)[many].sum(), many.sum()) < ALARM


def test_paths_of_one_state_and_one_month():
    query = StatePaths(PANEL, [1.0], [[1.0]], ([[0.5, 0.5]], [[0.2, 0.3, 0.5]]))
    release = wall(months=1).release(query, Exponential(1))
    assert release.table("state").value.shape == (2, 1)
    assert not release.value.any()
    assert float(release.certificate.epsilon) <= 1e-6  # nothing can be learnt


def test_paths_with_extreme_profiles_raise_nothing():
    sharp = np.array([[1.0, 1e-12], [1e-12, 1.0]])
    third = np.full((2, 3), 1 / 3)
    resolved = resolve_states(StatePaths(PANEL, [1.0, 1e-12], sharp, (sharp, third)), schema())
    steps = np.zeros(sum(block.size for block in resolved.tables), np.int64)
    for count in (0, 1, 10**9):
        for level in (0, 1):
            steps[:] = 0
            steps[level:12:2] = count
            drawn = resolved.sample(Statistic(steps, 1), resolved.exact(), seeded_entropy("x"))
            assert set(drawn) == ({level} if count > 1 else set(drawn))


# Profiles


def test_profiles_have_the_truncated_law():
    """Beta draws against betainc, Dirichlet ones against an integral of their margin."""
    seen = [((0, 0), (0, 0, 0)), ((3, 1), (0, 2, 1)), ((0, 9), (6, 0, 0))]
    alike = 333  # a state for each region, and each pattern in a third of them
    held = schema(regions=3 * alike, months=1)
    assignment = np.arange(3 * alike)[:, None]
    query = StateProfiles(PANEL, assignment, 3 * alike, prior=0.8, truncation=0.2)
    resolved = resolve_states(query, held)
    steps = np.concatenate([np.repeat([s[i] for s in seen], alike, axis=0).ravel() for i in (0, 1)])
    temperature, words = 1.7, seeded_entropy("profiles")
    noise = resolved.at_temperature(temperature)
    drawn = [resolved.sample(Statistic(steps, 1), noise, words) * GRID for _ in range(5)]
    a = np.array([d[: 6 * alike].reshape(3, alike, 2) for d in drawn])
    b = np.array([d[6 * alike :].reshape(3, alike, 3) for d in drawn])
    for values, least in ((a, 0.2 / 2), (b, 0.2 / 3)):
        np.testing.assert_array_equal(values.sum(axis=-1), 1)
        assert values.min() >= least
    for k, (of_a, of_b) in enumerate(seen):
        assert kstest(a[:, k, :, 1].ravel(), _truncated_beta(0.8, of_a, temperature)).pvalue > ALARM
        margin = _margin(0.8 + np.array(of_b) / temperature, 0.2 / 3)
        assert kstest(b[:, k, :, 0].ravel(), margin).pvalue > ALARM
    # The prior is not tempered, and the counts are.
    assert kstest(a[:, 2, :, 1].ravel(), _truncated_beta(0.8, seen[2][0], 1.0)).pvalue < ALARM


def _truncated_beta(prior, counts, temperature):
    """The distribution of the second of two probabilities, from 0.1 to 0.9."""
    no, yes = prior + np.array(counts) / temperature
    low, high = betainc(yes, no, [0.1, 0.9])
    return lambda v: (betainc(yes, no, v) - low) / (high - low)


def test_profiles_are_of_the_cells_that_are_assigned(monkeypatch):
    """And a state without cells has the prior's profile."""
    assignment = np.array([[0, 1, 1], [1, 0, 2]])
    resolved, statistic = statistic_of(StateProfiles(PANEL, assignment, 4, 0.8, 0.2))
    asked, original = [], _states.truncated_dirichlet.sample

    def recorded(concentration, truncation, uniform):
        asked.append((concentration, truncation))
        return original(concentration, truncation, uniform)

    monkeypatch.setattr(_states.truncated_dirichlet, "sample", recorded)
    resolved.sample(statistic, resolved.at_temperature(1.7), seeded_entropy("x"))
    tables = tables_of(resolved, statistic.integers)
    for table, (concentration, truncation) in zip(tables, asked, strict=True):
        counts = np.array([table[assignment == k].sum(axis=0) for k in range(4)])
        np.testing.assert_array_equal(concentration, 0.8 + counts / 1.7)
        assert truncation == 0.2 / table.shape[-1]
        assert not counts[3].any()
        assert counts.sum() == table.sum() > 0


def _margin(concentration, least):
    """The distribution of the first of three probabilities, none below `least`."""
    first, second, third = concentration
    theta = np.linspace(least, 1 - 2 * least, 4001)
    share = np.clip(least / (1 - theta), 0, 0.5)
    inner = betainc(second, third, 1 - share) - betainc(second, third, share)
    density = theta ** (first - 1) * (1 - theta) ** (second + third - 1) * inner
    mass = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return lambda v: np.interp(v, theta, mass / mass[-1])


def test_an_emission_with_a_single_level_says_nothing():
    held = tacit.Schema(
        tacit.Categorical("region", ["r0"]),
        tacit.Integer("month", 1, 2),
        tacit.Categorical("a", ["seen"]),
        tacit.Categorical("b", ["x", "y"]),
        neighbours="replace_one",
    )
    data = {"region": ["r0"] * 3, "month": [1, 2, 2], "a": ["seen"] * 3, "b": ["x", "y", ""]}
    query = StateProfiles(PANEL, np.array([[0, 1]]), 2, truncation=0.1)
    home = tacit.Wall(data, held, budget=tacit.Budget(9), ledger=":memory:")
    release = home.release(query, Exponential(1))
    np.testing.assert_array_equal(release.table("profile of a").value, [[1], [1]])
    assert release.noise[0].scale == pytest.approx(2 * np.log(0.95 / 0.05))


# Chains


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_a_long_chain_has_the_joint_law(monkeypatch, temperature):
    """Paths with profiles and transitions integrated out; seeded, so luck has no say."""
    held = schema(regions=2, months=2)
    panel = Panel("region", "month", ("a",))
    rows = [("r0", 1, "yes"), ("r0", 1, "yes"), ("r0", 2, "no"), ("r1", 1, "yes"), ("r1", 2, "no")]
    data = table_of([[(*row, "low")] for row in [*rows, ("r1", 2, "no"), ("r1", 1, MISSING)]])
    prior, moves, least, sweeps = 0.7, 1.5, 0.15, 2500
    query = StateChain(panel, 2, prior, moves, truncation=2 * least, sweeps=sweeps)
    resolved, statistic = statistic_of(query, data, held)
    (table,) = tables_of(resolved, statistic.integers)
    outcomes = all_paths(2, 2)
    given, original = [], _states.paths

    def recorded(counts, start, transition, profiles, *rest):
        path = original(counts, start, transition, profiles, *rest)
        # The law that the path is drawn from says more than the path.
        log = [
            log_chain(z, start, transition) + log_likelihood(z, [table], profiles) / temperature
            for z in outcomes
        ]
        given.append((np.exp(log - logsumexp(log)), profiles[0][:, 1], path.ravel()))
        return path

    monkeypatch.setattr(_states, "paths", recorded)
    last = resolved.sample(statistic, resolved.at_temperature(temperature), seeded_entropy("chain"))
    np.testing.assert_array_equal(last[:4], given[-1][2])
    # The paths that were drawn have these laws, sweep by sweep.
    code = np.array([path for _, _, path in given]) @ [8, 4, 2, 1]
    every = np.array([law for law, _, _ in given])
    gap = np.bincount(code, minlength=16) - every.sum(axis=0)
    spread = (every * (1 - every)).sum(axis=0) ** 0.5
    assert np.all(np.abs(gap) < 5.5 * spread + 1)  # 1e-6 for all sixteen
    laws = np.array([law for law, _, _ in given[50:]])
    first = np.array([profile[outcomes[:, 0, 0]] for _, profile, _ in given[50:]])

    log, mean = [], []
    for z in outcomes:
        total = _dirichlet(moves, np.bincount(z[:, 0], minlength=2))
        for k in range(2):
            after = z[:, 1][z[:, 0] == k]
            total += _dirichlet(moves, np.bincount(after, minlength=2))
            no, yes = prior + table[z == k].sum(axis=0) / temperature
            total += _log_beta(yes, no, least)
        no, yes = prior + table[z == z[0, 0]].sum(axis=0) / temperature
        mean.append(np.exp(_log_beta(yes + 1, no, least) - _log_beta(yes, no, least)))
        log.append(total)
    probability = np.exp(log - logsumexp(log))
    share = laws.mean(axis=0)
    share = (share + share[::-1]) / 2  # which state is called 0 is a matter of taste
    assert np.abs(share - probability).sum() / 2 < 0.02
    assert (laws * first).sum(axis=1).mean() == pytest.approx(probability @ mean, abs=0.01)


def _dirichlet(prior, counts):
    """The logarithm of the mean of p^counts under a flat Dirichlet prior, two states."""
    return betaln(*(prior + counts)) - betaln(prior, prior)


def _log_beta(yes, no, least):
    low, high = betainc(yes, no, [least, 1 - least])
    return betaln(yes, no) + np.log(high - low)


def test_a_chain_is_one_release_with_all_its_parts():
    query = StateChain(PANEL, 3, truncation=0.1, sweeps=5)
    release = wall().release(query, Exponential(1, "0.01"))
    assert [block.name for block in release.blocks] == [
        "state", "start", "transition", "profile of a", "profile of b",
    ]  # fmt: skip
    assert set(np.unique(release.table("state").value)) <= {0, 1, 2}
    for name in ("start", "transition", "profile of a", "profile of b"):
        _, value, noise = release.table(name)
        assert noise.grid == GRID
        np.testing.assert_array_equal(value.sum(axis=-1), 1)
    assert release.table("profile of b").value.min() >= 0.1 / 3 - GRID


@pytest.mark.parametrize("sweeps", [1, 200])
def test_the_certificate_of_a_chain_says_what_it_assumes(sweeps):
    query = StateChain(PANEL, 2, truncation=0.1, sweeps=sweeps)
    home = wall()
    for delta in ("0", "1e-5"):
        certificate = home.release(query, Exponential(1, delta)).certificate
        assert (certificate.epsilon, float(certificate.delta)) == (1, float(delta))
        text = " ".join(certificate.assumptions)
        assert "float draw" in text
        if delta == "0":
            assert "the chain had converged" in text
        else:
            assert f"total variation of {1e-5 / (1 + np.e):.3g}" in text
        worst = exponential_epsilon(1.0, 2 * sweeps, 1e-6)
        assert f"epsilon {worst:.4g} at delta 1e-06 ({2 * sweeps} with no delta)" in text
        assert "assum" in str(certificate)
    tight, held = StateChain(PANEL, 2, truncation=1e-3), schema(rows=60)
    with pytest.raises(tacit.errors.BudgetError, match="at most 500"):
        calibrated(resolve_states(tight, held), Exponential(2000, "1e-5"))
    plain = home.release(StatePaths(PANEL, START, MOVE, PROFILES), Exponential(1))
    assert "chain" not in " ".join(plain.certificate.assumptions)


# What one unit can change, exactly: rows that move between cells, and lack emissions

LEVELS = ("no", "yes", MISSING), ("low", "mid", "high", MISSING)
KINDS = [(month, a, b) for month in (1, 2, MISSING) for a, b in product(*LEVELS)]


def row_counts(relation, rows, kinds=KINDS):
    """The wall's counts of single rows, each in a region of its own: any data set is their sum."""
    held = schema(relation, rows, regions=len(kinds), months=2)
    query = StatePaths(PANEL, START, MOVE, PROFILES)
    data = table_of([[(f"r{i}", *kind)] for i, kind in enumerate(kinds)])
    resolved, statistic = statistic_of(query, data, held)
    return [[t[None] for t in row] for row in zip(*tables_of(resolved, statistic.integers))]


def worst_loss(log_bases, log_units, relation):
    """The largest move of a log-probability, and of two against each other, over neighbours.

    Bases are data sets of the others' units, both are log-likelihoods of all outcomes.
    """
    worst = spread = 0.0
    for base in log_bases:
        log = base + log_units
        log = log - logsumexp(log, axis=1, keepdims=True)
        if relation == "add_remove":
            moved = log - (base - logsumexp(base))
        else:
            moved = (log[:, None] - log[None]).reshape(-1, log.shape[1])
        worst = max(worst, np.abs(moved).max())
        spread = max(spread, (moved.max(axis=1) - moved.min(axis=1)).max())
    return worst, spread


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_paths_move_within_epsilon(relation, rows):
    held = schema(relation, rows, regions=1, months=2)
    alike = (np.array([[0.8, 0.2], [0.2, 0.8]]), np.array([[0.5, 0.4, 0.1], [0.1, 0.4, 0.5]]))
    # The second state is rare: what speaks for it moves its probability most.
    start, move = np.array([0.9999, 0.0001]), np.array([[0.9999, 0.0001], [0.9, 0.1]])
    query = StatePaths(PANEL, start, move, alike)
    calibration = calibrated(resolve_states(query, held), Exponential(1))
    temperature, epsilon = calibration.noise[0].scale, float(calibration.cost.epsilon)
    outcomes = all_paths(1, 2)
    prior = np.array([log_chain(z, start, move) for z in outcomes])

    single = np.array(
        [
            [log_likelihood(z, tables, alike) / temperature for z in outcomes]
            for tables in row_counts(relation, rows)
        ]
    )
    units = np.unique(
        [
            single[list(unit)].sum(axis=0)
            for n in range(1, rows + 1)
            for unit in combinations_with_replacement(range(len(KINDS)), n)
        ],
        axis=0,
    )
    bases = prior + np.concatenate([np.zeros((1, 4)), units[:: len(units) // 10], 3 * units[-1:]])
    worst, spread = worst_loss(bases, units, relation)
    assert worst <= epsilon * (1 + 1e-9)
    assert spread <= epsilon * (1 + 1e-9)
    assert worst > 0.95 * epsilon


def test_an_emission_that_may_be_missing_takes_nothing_away_from_the_range():
    """Where b always speaks for state 1, the row that speaks most for state 0 lacks it."""
    a = np.array([[0.8, 0.88], [0.1, 0.8]])
    b = np.array([[0.3, 0.3, 0.3], [0.9, 0.9, 0.9]])  # no probabilities, and nobody checks
    for order in ([0, 1], [1, 0]):
        query = StatePaths(PANEL, START, MOVE, (a[order], b[order]))
        # not log(8) - log(3) in that direction, nor the other one's log(1.1) + log(3)
        for relation, factor in (("add_remove", 1), ("replace_one", 2)):
            span = resolve_states(query, schema(relation)).span
            assert span == pytest.approx(factor * np.log(8), rel=1e-9)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_profiles_move_within_epsilon(relation, rows):
    """Two states, emissions of two and three levels; the worst base has many rows all alike.

    Outcomes are points of a grid. Any set of outcomes has the same range, so none is left out
    that matters: the corners are among them.
    """
    share, prior = 0.3, 1.2
    held = schema(relation, rows, regions=1, months=2)
    query = StateProfiles(PANEL, np.array([[0, 1]]), 2, prior, share)
    calibration = calibrated(resolve_states(query, held), Exponential(2))
    temperature, epsilon = calibration.noise[0].scale, float(calibration.cost.epsilon)
    single = [np.concatenate([t[0].ravel() for t in row]) for row in row_counts(relation, rows)]
    units = np.unique(
        [
            sum(single[i] for i in unit)
            for n in range(1, rows + 1)
            for unit in combinations_with_replacement(range(len(KINDS)), n)
        ],
        axis=0,
    )
    # Month 1 is of state 0, month 2 of state 1, each with a law of its own for each emission.
    parts = [slice(0, 2), slice(2, 4), slice(4, 7), slice(7, 10)]
    grids = [_grid(2, share), _grid(2, share), _grid(3, share), _grid(3, share)]

    def log_density(counts):
        logs = []
        for part, grid in zip(parts, grids):
            log = (prior - 1 + counts[:, part] / temperature) @ np.log(grid).T
            logs.append(log - logsumexp(log, axis=1, keepdims=True))
        return logs

    worst = 0.0
    many = np.zeros(10, int)
    many[[0, 2, 4, 7]] = 300
    for base in (np.zeros(10, int), units[3], 2 * units[-1], many):
        after = log_density(base + units)
        before = log_density(base[None]) if relation == "add_remove" else after
        moved = [a[:, None] - b[None] for a, b in zip(after, before)]
        up = sum(m.max(axis=2) for m in moved)
        down = sum(-m.min(axis=2) for m in moved)
        assert max(up.max(), down.max(), (up + down).max()) <= epsilon * (1 + 1e-9)
        worst = max(worst, up.max(), down.max())
    assert worst > 0.95 * epsilon


def _grid(levels, share):
    """Points of the simplex with no probability below share / levels, corners included."""
    least = share / levels
    steps = np.linspace(0, 1, 41 if levels == 2 else 9) ** 2  # closer to the edges
    free = [p for p in product(steps, repeat=levels - 1) if sum(p) <= 1]
    parts = np.array([(*p, 1 - sum(p)) for p in free])
    return least + (1 - levels * least) * parts


def test_chains_and_profiles_have_the_same_range_at_any_number_of_states():
    for relation, factor in (("add_remove", 1), ("replace_one", 2)):
        for rows in (1, 3):
            held = schema(relation, rows)
            widths = np.log((1 - 0.05) / 0.05) + np.log((1 - 2 * 0.1 / 3) / (0.1 / 3))
            for query in (
                StateProfiles(PANEL, np.zeros((2, 3), int), 5, truncation=0.1),
                StateChain(PANEL, 2, truncation=0.1),
                StateChain(PANEL, 9, truncation=0.1, sweeps=3),
            ):
                span = resolve_states(query, held).span
                assert span == pytest.approx(factor * rows * widths, rel=1e-9)
                assert span >= factor * rows * widths


# Refusals

FLAT = np.full((2, 2), 0.5), np.full((2, 3), 1 / 3)
CELLS = np.zeros((2, 3), int)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Panel("region", "month", ()),
        lambda: Panel("region", "region", ("a",)),
        lambda: Panel("region", "month", ("a", "a")),
        lambda: Panel("region", 3, ("a",)),
        lambda: StatePaths(PANEL, START, MOVE, FLAT[:1]),
        lambda: StatePaths(PANEL, START, MOVE[:1], FLAT),
        lambda: StatePaths(PANEL, START[:1], MOVE, FLAT),
        lambda: StatePaths(PANEL, [], np.zeros((0, 0)), (np.zeros((0, 2)), np.zeros((0, 3)))),
        lambda: StatePaths(PANEL, 0.5, MOVE, FLAT),
        lambda: StatePaths(PANEL, START, MOVE, (FLAT[0], 0.5)),
        lambda: StatePaths(PANEL, START, MOVE, (FLAT[0][:1], FLAT[1])),
        lambda: StatePaths(PANEL, START * np.nan, MOVE, FLAT),
        lambda: StatePaths(PANEL, START, MOVE * [[0, 1], [1, 1]], FLAT),
        lambda: StatePaths(PANEL, START, MOVE, (FLAT[0] * [[0, 2], [1, 1]], FLAT[1])),
        lambda: StatePaths(PANEL, START, MOVE, (FLAT[0], FLAT[1] * np.nan)),
        lambda: StatePaths(PANEL, START, MOVE, (FLAT[0], -FLAT[1])),
        lambda: StatePaths(PANEL, START, 2 * MOVE, FLAT),
        lambda: StateProfiles(PANEL, CELLS, 2),
        lambda: StateProfiles(PANEL, CELLS, 0, truncation=0.1),
        lambda: StateProfiles(PANEL, CELLS, True, truncation=0.1),
        lambda: StateProfiles(PANEL, CELLS, 1001, truncation=0.1),
        lambda: StateProfiles(PANEL, CELLS, 2, truncation=0),
        lambda: StateProfiles(PANEL, CELLS, 2, truncation=1.0),
        lambda: StateProfiles(PANEL, CELLS, 2, truncation=float("nan")),
        lambda: StateProfiles(PANEL, CELLS, 2, prior=0, truncation=0.1),
        lambda: StateProfiles(PANEL, CELLS, 2, prior=float("nan"), truncation=0.1),
        lambda: StateProfiles(PANEL, CELLS + 2, 2, truncation=0.1),
        lambda: StateProfiles(PANEL, CELLS - 1, 2, truncation=0.1),
        lambda: StateProfiles(PANEL, CELLS.astype(float), 2, truncation=0.1),
        lambda: StateProfiles(PANEL, CELLS[0], 2, truncation=0.1),
        lambda: StateChain(PANEL, 2),
        lambda: StateChain(PANEL, 2, truncation=0.1, sweeps=0),
        lambda: StateChain(PANEL, 2, truncation=0.1, sweeps=2.5),
        lambda: StateChain(PANEL, 2, transition_prior=-1, truncation=0.1),
    ],
)
def test_senseless_questions_are_refused(make):
    with pytest.raises(tacit.errors.QueryError):
        make()


def test_questions_must_fit_the_columns_and_cost_nothing_if_not():
    home = wall()
    wide = Panel("region", "month", ("many",))
    columns = (
        tacit.Categorical("region", ["r0"]),
        tacit.Integer("month", 1, 2),
        tacit.Integer("many", 1, 600),
    )
    many = tacit.Schema(*columns, neighbours="replace_one")
    other = tacit.Wall(
        {"region": [], "month": [], "many": []}, many, budget=tacit.Budget(9), ledger=":memory:"
    )
    real = tacit.Schema(*columns[:2], tacit.Real("many", 0, 1), neighbours="replace_one")
    for held, query in (
        (home, StatePaths(PANEL, START, MOVE, FLAT[::-1])),
        (home, StateProfiles(PANEL, CELLS[:, :2], 2, truncation=0.1)),
        (home, StateProfiles(PANEL, CELLS.T, 2, truncation=0.1)),
        (home, StateChain(Panel("region", "year", ("a",)), 2, truncation=0.1)),
        (other, StateChain(wide, 2, truncation=1e-4)),
        (other, StateProfiles(wide, CELLS[:1, :2], 2, truncation=1e-4)),
    ):
        before = held.remaining.epsilon
        with pytest.raises(tacit.TacitError):
            held.release(query, Exponential(1))
        assert held.remaining.epsilon == before
    with pytest.raises(tacit.TacitError):
        resolve_states(StateChain(wide, 2, truncation=0.1), real)
    for mechanism in (tacit.Laplace(1), tacit.Gaussian(1, 1e-6), Exact()):
        with pytest.raises(tacit.errors.BudgetError):
            home.release(StateChain(PANEL, 2, truncation=0.1), mechanism)


def test_what_is_given_cannot_be_changed_later():
    profiles = FLAT[0].copy()
    cells = CELLS.copy()
    query = StatePaths(PANEL, START, MOVE, (profiles, FLAT[1]))
    given = StateProfiles(PANEL, cells, 2, truncation=0.1)
    before = resolve_states(query, schema()).span
    profiles[0] = [1e-9, 1]
    cells[0, 0] = 99
    assert resolve_states(query, schema()).span == before
    assert given.assignment.max() == 0
    with pytest.raises(ValueError, match="read-only"):
        query.profiles[0][0, 0] = 1e-9
    with pytest.raises(ValueError, match="read-only"):
        given.assignment[0, 0] = 99


def test_what_was_saved_can_be_asked_again(tmp_path):
    home = wall()
    for query in (
        StatePaths(PANEL, START, MOVE, PROFILES),
        StateProfiles(PANEL, CELLS, 2, truncation=0.1),
        StateChain(PANEL, 2, truncation=0.1, sweeps=2),
    ):
        release = home.release(query, Exponential(1))
        release.save(tmp_path / "r.json")
        loaded = tacit.Release.load(tmp_path / "r.json")
        assert loaded == release
        assert digest(loaded.query.to_dict()) == digest(query.to_dict())
        again = home.release(loaded.query, Exponential(1))
        assert again.certificate.events == release.certificate.events
    other = StatePaths(PANEL, START, MOVE, FLAT)
    kept = StatePaths(PANEL, START, MOVE, PROFILES)
    assert digest(other.to_dict()) != digest(kept.to_dict())


# In a lease


def test_a_lease_draws_paths_and_profiles_at_its_own_temperature():
    plan = tacit.queries.Plan(tacit.queries.Steps(5, Exponential("0.4")), delta=0)
    home = wall("add_remove")
    lease = home.prepay(plan)
    assert home.remaining.epsilon == 998
    paths = StatePaths(PANEL, START, MOVE, PROFILES)
    profiles = StateProfiles(PANEL, CELLS, 2, truncation=0.1)
    for query in (paths, profiles):
        release = lease.release(query)
        span = resolve_states(query, schema("add_remove")).span
        assert release.noise[0].scale == pytest.approx(2.5 * span)
        assert release.n is None
        assert "float draw" in " ".join(release.certificate.assumptions)
    alike = StatePaths(PANEL, START, MOVE, FLAT)
    assert lease.release(alike).noise[0].scale == 1  # states that are alike need no tempering
    same = StatePaths.from_dict(paths.to_dict())
    span = resolve_states(paths, schema("add_remove")).span
    assert lease.release(same).noise[0].scale == pytest.approx(2.5 * span)
    for query in (
        StateChain(PANEL, 2, truncation=0.1),
        StatePaths(PANEL, START, MOVE, FLAT[::-1]),
        StateProfiles(PANEL, CELLS.T, 2, truncation=0.1),
    ):
        with pytest.raises(tacit.errors.QueryError):
            lease.release(query)
    assert lease.steps_left == 1
    noisy = home.prepay(
        tacit.queries.Plan(tacit.queries.Steps(1, tacit.Gaussian(noise_multiplier=1.0)), delta=1e-6)
    )
    with pytest.raises(tacit.errors.QueryError, match="Exponential"):
        noisy.release(paths)
    assert noisy.steps_left == 1


def test_a_lease_reads_the_counts_once(monkeypatch):
    home = wall()
    reads, original = [], home._source.snapshot
    counted = lambda: (reads.append(1), original())[1]  # noqa: E731
    monkeypatch.setitem(home._source.__dict__, "snapshot", counted)
    lease = home.prepay(tacit.queries.Plan(tacit.queries.Steps(6, Exponential(1)), delta=1e-6))
    for _ in range(3):
        lease.release(StateProfiles(PANEL, CELLS, 2, truncation=0.1))
        lease.release(StatePaths(PANEL, START, MOVE, PROFILES))
    assert reads == [1]
