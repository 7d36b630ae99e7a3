"""A smoke run of `war_logs.py`: the facts that must not change with the seeds."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]
FOLDER = Path(__file__).parents[2] / "reproductions"


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
