"""What a release looks like to people: frames with noise intervals, and short representations."""

import numpy as np
import pytest
from scipy.stats import dlaplace

import tacit
from tacit.spec.release import Noise
from tacit.testing import simulated_release

SCHEMA = tacit.Schema(
    tacit.Categorical("flag", ["no", "<yes>"], default="no"),
    tacit.Categorical("ward", ["north", "south"]),
    neighbours="replace_one",
)


@pytest.mark.parametrize("scale", [0.3, 1, 8, 57.0, 1e6])
@pytest.mark.parametrize("level", [0.05, 0.5, 0.9, 0.999])
def test_widths_of_discrete_noise_are_the_smallest_that_hold(scale, level):
    width = Noise("discrete_laplace", scale, 1.0).half_width(level)

    def held(m):
        return dlaplace.cdf(m, 1 / scale) - dlaplace.cdf(-m - 1, 1 / scale)

    assert held(width) >= level - 1e-9
    assert width == 0 or held(width - 1) < level

    def gaussian(m):
        at = np.arange(-int(12 * scale) - 30, int(12 * scale) + 31)
        weight = np.exp(-0.5 * (at / scale) ** 2)
        return weight[np.abs(at) <= m].sum() / weight.sum()

    width = Noise("discrete_gaussian", scale, 1.0).half_width(level)
    assert gaussian(width) >= level - 1e-6
    assert width == 0 or gaussian(width - 1) < level + 1e-6


def test_a_frame_has_each_cell_with_its_interval():
    query = tacit.queries.Counts(["flag", ("ward", "flag")])
    release = simulated_release(SCHEMA, query, tacit.Laplace(1), [30, 10, 20, 35, 5, 0, 0], 100)
    frame = release.to_frame()
    assert list(frame.columns) == ["table", "flag", "ward", "estimate", "low", "high"]
    assert len(frame) == 2 + 6
    assert frame["estimate"][:2].sum() == 100  # the cell that was left out is there
    one = release.to_frame("ward & flag").set_index(["ward", "flag"])
    assert one.loc[("(missing)", "no"), "low"] >= 0
    wide = release.to_frame("flag", level=0.99)
    assert np.all(wide["high"] - wide["estimate"] > (frame["high"] - frame["estimate"])[:2])
    with pytest.raises(tacit.errors.QueryError, match="no table 'bmi'"):
        release.to_frame("bmi")
    with pytest.raises(tacit.errors.QueryError, match="level=90"):
        release.to_frame(level=90)


def test_an_interval_covers_what_noise_was_added_to():
    """The exact counts lie inside in 90% of 4,000 cells or more: false alarm 1e-6."""
    truth = np.arange(4000) + 100
    schema = tacit.Schema(tacit.Integer("v", 1, 3999), neighbours="add_remove")
    release = simulated_release(schema, tacit.queries.Counts("v"), tacit.Laplace(0.5), truth, 0)
    frame = release.to_frame()
    inside = (frame["low"] <= truth) & (truth <= frame["high"])
    assert inside.mean() >= 0.9 - 4.9 * np.sqrt(0.9 * 0.1 / 4000)


def test_representations_are_short_and_escaped():
    wall = tacit.Wall(
        {"flag": ["no"] * 5, "ward": ["north"] * 5},
        SCHEMA,
        budget=tacit.Budget(1, 1e-6),
        ledger=":memory:",
    )
    model = tacit.BetaBernoulli("flag", success="<yes>")
    posterior = tacit.fit(model, wall, tacit.Laplace(0.25), draws=50)
    (release,) = posterior.releases
    assert repr(wall.remaining) == "Left(epsilon=0.75, delta=0.000001)"
    assert repr(release.certificate) == (
        "Certificate(epsilon 0.25, delta 0 for one row, replace_one, ledger entry 2)"
    )
    assert len(repr(release)) < 200
    planned = tacit.plan(model, SCHEMA, tacit.Laplace(1))
    steps = tacit.queries.Steps(3, tacit.Gaussian(noise_multiplier=2.0))
    several = tacit.queries.Plan(steps, delta=1e-6)
    shown = (wall, SCHEMA, release, release.certificate, posterior, wall.remaining, planned)
    for value in (*shown, several, tacit.Budget(1)):
        html = value._repr_html_()
        assert html.startswith("<strong>")
        assert "<yes>" not in html
        assert html.count("<table>") == html.count("</table>") > 0
