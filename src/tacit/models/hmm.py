"""A hidden Markov model of categorical columns, many rows to each sequence and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
from scipy.special import gammaln

from tacit.infer.hmm import Cells, HiddenDraws, Priors, draw_hidden_states, relabelled
from tacit.infer.noise import Law
from tacit.models.checks import check_answers, concentration, names_of, refuse_draws
from tacit.models.hmm_gibbs import StateBlocks, sweep_of
from tacit.posterior.hidden_states import STATE, HiddenStatesPosterior
from tacit.spec.checks import one_of, set_fields, whole_number
from tacit.spec.columns import Label
from tacit.spec.errors import ModelError
from tacit.spec.gibbs import Values
from tacit.spec.hidden_states import Panel, StateChain, Sweep
from tacit.spec.queries import Counts
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema

_NEXT = "next_state"
_TAKEN = {STATE, _NEXT, "states", "chain", "draw", "transition", "start"}


@dataclass(frozen=True)
class HMM:
    """What goes on in each sequence at each time, as one of a few hidden states.

    Each state has its own probabilities for the levels of each column, which are independent given
    the state. States follow each other as a Markov chain along the levels of `time`, in their
    public order; a time without rows is an empty cell.

    Parameters
    ----------
    n_states
        How many states there are.
    sequence, time
        Countable columns: where a row belongs, and when. `time` is in the order of its levels.
    emissions
        The columns that states explain, such as the type and category of an event.
    prior, prior_transition
        Dirichlet concentrations of the emission probabilities, and of the transition and start
        probabilities.
    prior_centre
        Where the prior of the emissions is centred: "overall", half way between equal shares and
        those of the levels in all cells together, as the release has them; or "uniform", at equal
        shares, as in the papers. Under much noise little is seen of a single state, and what all
        have in common is the better guess.
    held_out
        Pairs (sequence, time) of cells whose counts are ignored; their states are predicted.
    sampler
        "ffbs" draws whole paths. "single_site" is the papers' sampler, for exact counts and
        noise="plugin".

    Examples
    --------
    >>> HMM(2, "region", "month", ["type"]).query()
    Counts(columns=('type',), by=('region', 'month'))
    """

    n_states: int
    sequence: str
    time: str
    emissions: Sequence[str]
    prior: float = 1.0
    prior_transition: float = 1.0
    prior_centre: Literal["overall", "uniform"] = "overall"
    held_out: Sequence[tuple[Label, Label]] = ()
    sampler: Literal["ffbs", "single_site"] = "ffbs"

    def __post_init__(self) -> None:
        whole_number(self.n_states, "n_states", most=200)
        set_fields(self, emissions=names_of(self.emissions, "emission"))
        concentration(self, "prior", "prior_transition")
        columns = names_of((self.sequence, self.time, *self.emissions), "column")
        if set(columns) & _TAKEN:
            taken = sorted(set(columns) & _TAKEN)[0]
            raise ModelError(f"Expected another name for column {taken!r}: a result is called so.")
        try:
            set_fields(self, held_out=tuple((a, b) for a, b in self.held_out))
        except (TypeError, ValueError):
            raise ModelError("Expected held_out as pairs: [(sequence, time), ...].") from None
        one_of(self.prior_centre, "prior_centre", ("overall", "uniform"), ModelError)
        one_of(self.sampler, "sampler", ("ffbs", "single_site"), ModelError)

    def query(self) -> Counts:
        return Counts(tuple(self.emissions), by=(self.sequence, self.time))

    def check(self, schema: Schema, *, noise: str = "aware", exact: bool = False) -> None:
        """Refuse cells that do not exist, and a sampler without its noise=, before paying."""
        self._held_out(schema)
        if self.sampler == "single_site" and noise == "aware" and not exact:
            raise ModelError("Expected noise='plugin' beside sampler='single_site'.")

    def posterior(
        self, release: Release, **sampling: Unpack[SamplingOptions]
    ) -> HiddenStatesPosterior:
        """The posterior of states and probabilities given counts with noise."""
        how = Sampling.of(sampling)
        if isinstance(release.query, StateChain):
            refuse_draws(sampling)
            return self._last_sweep(release)
        check_answers(release, self.query())
        cells, single_site = self._cells(release), self.sampler == "single_site"
        if single_site and how.noise == "aware" and not cells.exact:
            raise ModelError("Expected noise='plugin' beside sampler='single_site'.")
        drawn = draw_hidden_states(
            cells, self.n_states, self._priors(), how, single_site=single_site
        )
        profiles = []
        for name, first in zip(self.emissions, cells.first[:-1], strict=True):
            p = drawn.theta[:, :, first : first + len(release.schema[name].labels)]
            # In the order in which it is read back, so that sums round alike.
            profiles.append(np.ascontiguousarray(p / p.sum(axis=2, keepdims=True)))
        draws, labels = self._draws(profiles, drawn), self._labels(release.schema)
        return HiddenStatesPosterior.of(self, release, how, draws, labels=labels)

    def state_chain(self, *, truncation: Any, sweeps: int) -> StateChain:
        """Return the query for a chain that the wall runs itself."""
        panel = Panel(self.sequence, self.time, tuple(self.emissions))
        if self.held_out:
            raise ModelError("Expected no held_out cells: a private chain sees all cells.")
        return StateChain(
            panel, self.n_states, self.prior, self.prior_transition, truncation, sweeps
        )

    def gibbs(self, schema: Schema, *, truncation: Any) -> StateBlocks:
        """Return the blocks of a Gibbs sampler through the wall: profiles, and states."""
        return StateBlocks(self.state_chain(truncation=truncation, sweeps=1), schema)

    def gibbs_posterior(self, release: Release, kept: Sequence[Values]) -> HiddenStatesPosterior:
        """Return the plug-in posterior of what a Gibbs sampler drew, with its diagnosis."""
        sweeps = [sweep_of(release, values, tuple(self.emissions)) for values in kept]
        return self.chain_posterior(sweeps).diagnosed()

    def chain_posterior(self, sweeps: Sequence[Sweep]) -> HiddenStatesPosterior:
        """Return the plug-in posterior of the public sweeps of a private chain."""
        release = sweeps[-1].release
        found = relabelled(
            HiddenDraws(
                np.stack([sweep.path for sweep in sweeps]),
                np.stack([np.concatenate(sweep.profiles, axis=1) for sweep in sweeps]),
                np.stack([sweep.transition for sweep in sweeps]),
                np.stack([sweep.start for sweep in sweeps]),
            )
        )
        ends = np.cumsum([profile.shape[1] for profile in sweeps[-1].profiles])[:-1]
        draws = self._draws(np.split(found.theta, ends, axis=2), found)
        labels = self._labels(release.schema)
        return HiddenStatesPosterior.from_draws(self, release, draws, labels)

    def _draws(self, profiles: Sequence[np.ndarray], found: HiddenDraws) -> dict[str, np.ndarray]:
        emitted = {f"emission_{name}": p for name, p in zip(self.emissions, profiles, strict=True)}
        others = {"transition": found.transition, "start": found.start, "states": found.states}
        return emitted | others

    def _last_sweep(self, release: Release) -> HiddenStatesPosterior:
        assert isinstance(release.query, StateChain)
        if release.query.panel != Panel(self.sequence, self.time, tuple(self.emissions)):
            raise ModelError("Expected a release of this model's columns.")
        path, start, transition, *profiles = (
            release.table(block.name).value for block in release.blocks
        )
        states = np.rint(path).astype(np.int64)
        return self.chain_posterior([Sweep(release, states, start, transition, tuple(profiles))])

    def _labels(self, schema: Schema) -> dict[str, Any]:
        state = {STATE: range(self.n_states)}
        levels = {name: {name: schema[name].labels} for name in self.emissions}
        cells = {name: schema[name].labels for name in (self.sequence, self.time)}
        return {f"emission_{name}": state | levels[name] for name in self.emissions} | {
            "transition": state | {_NEXT: range(self.n_states)},
            "start": state,
            "states": cells,
        }

    def log_prior(self, draws: Mapping[str, np.ndarray], release: Release) -> np.ndarray:
        """The log density of the prior at draws of emissions, transitions and starts."""
        log: Any = 0.0
        cells = self._cells(release)
        of_levels = np.split(self._priors().of_levels(cells), cells.first[1:-1])
        concentrations = {f"emission_{name}": a for name, a in zip(self.emissions, of_levels)}
        moves = np.full(self.n_states, self.prior_transition)
        for name, levels in (concentrations | {"transition": moves, "start": moves}).items():
            p = draws[name]
            a = levels[: p.shape[-1]]  # missing values apart, which come last
            each = (np.log(np.maximum(p, 1e-300)) * (a - 1)).sum(axis=-1)
            each += gammaln(a.sum()) - gammaln(a).sum()
            log = log + each.reshape(len(each), -1).sum(axis=1)
        return log

    def _priors(self) -> Priors:
        return Priors(self.prior, self.prior_transition, shared=self.prior_centre == "overall")

    def _held_out(self, schema: Schema) -> np.ndarray:
        """Which cells (sequence, time) are held out."""
        sequences, times = (schema[name].labels for name in (self.sequence, self.time))
        found = np.zeros((len(sequences), len(times)), dtype=bool)
        for one, other in self.held_out:
            if one not in sequences or other not in times:
                raise ModelError(
                    f"No cell ({one!r}, {other!r}) to hold out: expected public levels of "
                    f"{self.sequence!r} and {self.time!r}."
                )
            found[sequences.index(one), times.index(other)] = True
        return found

    def _cells(self, release: Release) -> Cells:
        """The tables side by side, without the rows that have no sequence or time.

        A missing emission is a level of its own in here, so that all tables of a cell have as many
        rows.
        """
        used = ~self._held_out(release.schema)
        sequences, times = used.shape
        tables = [release.table(name) for name in self.emissions]
        values = [table.value[:sequences, :times] for table in tables]
        units = release.schema.max_units if release.n is None else release.n
        return Cells(
            np.concatenate(values, axis=2),
            np.cumsum([0, *(value.shape[2] for value in values)]),
            [Law.of(table.noise) for table in tables],
            used,
            np.inf if units is None else float(units * release.schema.max_rows_per_unit),
        )
