"""The tests of conjugate draws see another law than the one that was audited."""

from dataclasses import replace
from types import SimpleNamespace

import tacit
from tacit.audit.draws import draws_p_value, means_p_value
from tacit.audit.game import ALARM
from tacit.draws.conjugate import ConjugateAnswer, resolve_draw
from tacit.spec.draws import BoundedNormal


def test_draws_of_a_mean_with_another_law_are_noticed():
    law = BoundedNormal("x", 0.5, (0.5, 1.0), 0.0, 1.0)
    schema = tacit.Schema(tacit.Real("x", 0, 1), neighbours="replace_one")
    resolved = resolve_draw(tacit.queries.ConjugateDraw(law, draws=1000), schema)
    assert means_p_value(resolved, 1.0, 20_000) > ALARM

    class Warm(ConjugateAnswer):
        def sample(self, statistic, noise, words):
            warmer = (replace(noise[0], scale=1.2 * noise[0].scale),)
            return super().sample(statistic, warmer, words)

    warm = Warm(**vars(resolved))
    assert means_p_value(warm, 1.0, 20_000) < ALARM


def test_draws_of_another_law_are_noticed():
    """The broken twin of the test of the draws: a fifth off the temperature, at 20,000 draws."""
    law = tacit.queries.TruncatedDirichlet("x", (1.0, 1.0, 1.0), truncation=0.1)
    schema = tacit.Schema(tacit.Categorical("x", ["a", "b", "c"]), neighbours="replace_one")
    resolved = resolve_draw(tacit.queries.ConjugateDraw(law, draws=1000), schema)

    def sample(statistic, noise, words):
        warmer = (replace(noise[0], scale=1.2 * noise[0].scale),)
        return resolved.sample(statistic, warmer, words)

    warm = SimpleNamespace(
        query=resolved.query,
        blocks=resolved.blocks,
        at_temperature=resolved.at_temperature,
        sample=sample,
    )
    counts = (60, 10, 0)
    assert draws_p_value(counts, resolved, 3.0, 20_000) > ALARM
    assert draws_p_value(counts, warm, 3.0, 20_000) < ALARM
