"""A study file: data, schema, budget and analyses in one public TOML text."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tacit.fitting import How, fit, resolve
from tacit.methods import METHODS, Statistics
from tacit.methods.method import Once
from tacit.methods.run import task_of
from tacit.methods.schedules import SCHEDULES
from tacit.models import model_from_description
from tacit.posterior import Posterior, describe
from tacit.spec.budget import Budget
from tacit.spec.columns import column_from_dict
from tacit.spec.errors import FileError, StudyError
from tacit.spec.mechanisms import Gaussian, Laplace
from tacit.spec.plan import SUBSAMPLING
from tacit.spec.protocols import Releaser
from tacit.spec.release import Release
from tacit.spec.sampling import SamplingOptions
from tacit.spec.schema import Schema

_KNOWN: Mapping[str, Mapping[str, Any]] = {
    "mechanism": {"Laplace": Laplace, "Gaussian": Gaussian},
    "method": {each.__name__: each for each in METHODS if each is not Statistics},
    "schedule": SCHEDULES,
    "subsampling": {each.__name__: each for each in SUBSAMPLING},
}
_OPTIONS = tuple(SamplingOptions.__annotations__)
_SPENT = ("epsilon", "delta")


@dataclass(frozen=True)
class Analysis:
    """One question of a study: its name, model, inference method, and sampling options."""

    name: str
    model: Any
    how: How
    options: SamplingOptions


@dataclass(frozen=True)
class Study:
    """What a study file says, checked; nothing has been opened but the file itself."""

    source: Path
    ledger: Path
    schema: Schema
    budget: Budget
    analyses: tuple[Analysis, ...]
    output: Path

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a study file; its paths are relative to it."""
        path = Path(path)
        try:
            # Decimals, so that epsilon = 0.1 means one tenth.
            facts = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
        except OSError as error:
            raise StudyError(f"Cannot read {path}: {error.strerror}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise StudyError(f"{path} is not a TOML file: {error}.") from None
        where = path.parent
        _check(facts, "the study", {"data", "schema", "budget", "analysis"}, {"output"})
        _check(facts["data"], "[data]", {"source", "ledger"})
        _check(facts["budget"], "[budget]", {"epsilon"}, {"delta"})
        _check(facts.get("output", {}), "[output]", set(), {"folder"})
        if not isinstance(facts["analysis"], list) or not facts["analysis"]:
            raise StudyError("Expected at least one [[analysis]] in the study.")
        analyses = tuple(_analysis(a) for a in facts["analysis"])
        if len({a.name for a in analyses}) < len(analyses):
            raise StudyError("Expected each [[analysis]] to have its own name.")
        return cls(
            source=where / str(facts["data"]["source"]),
            ledger=where / str(facts["data"]["ledger"]),
            schema=_schema(facts["schema"]),
            budget=Budget(**facts["budget"]),
            analyses=analyses,
            output=where / str(facts.get("output", {}).get("folder", "results")),
        )

    def analysis(self, name: str | None) -> Analysis:
        """The analysis of this name; None will do for the only one."""
        found = [a for a in self.analyses if name in (None, a.name)]
        if len(found) == 1:
            return found[0]
        wanted = "Expected --analysis" if name is None else f"No analysis {name!r}"
        raise StudyError(f"{wanted}; the study has {', '.join(a.name for a in self.analyses)}.")


def run_analysis(analysis: Analysis, releaser: Releaser) -> Posterior:
    """Release and fit; asking again replays the stored release."""
    return fit(analysis.model, releaser, analysis.how, name=analysis.name, **analysis.options)


def release_analysis(analysis: Analysis, releaser: Releaser) -> Release:
    """The custodian's half: the release alone, with the model it was meant for."""
    method: Any = resolve(analysis.model, releaser, analysis.how)
    task = task_of(method, analysis.model, releaser, analysis.name, dict(analysis.options))
    match method.plan(task).payments:
        case (Once(mechanism=mechanism),):
            query = method.ask(method.start(task))
        case _:
            raise StudyError(
                f"{type(method).__name__} asks in steps, each question following from the last "
                f"answer: there is no single release of {analysis.name!r} to write. Use tacit run."
            )
    release = releaser.release(query, mechanism, name=analysis.name)
    return release.suggesting({**describe(analysis.model), **analysis.options})


def fit_release(release: Release, **changes: Any) -> Posterior:
    """The analyst's half: the posterior that the release suggests, or a variation of it."""
    if release.analysis is None:
        raise StudyError("This release does not say which model it is for; use model.posterior.")
    facts = {**release.analysis, **{k: v for k, v in changes.items() if v is not None}}
    options = {key: facts.pop(key) for key in _OPTIONS if key in facts}
    return model_from_description(facts).posterior(release, **options)


def write_results(posterior: Posterior, folder: Path) -> None:
    """Summary, posterior, release and certificate, side by side."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        posterior.summary().to_csv(folder / "summary.csv")
        posterior.save(folder / "posterior.nc")
        (release,) = posterior.releases
        release.save(folder / "release.json")
        (folder / "certificate.json").write_text(posterior.certificate.to_json() + "\n")
    except OSError as error:
        raise FileError(f"Cannot write results to {folder}: {error.strerror}.") from None


def _schema(facts: Mapping[str, Any]) -> Schema:
    optional = {"unit", "max_rows_per_unit", "max_units", "neighbours"}
    _check(facts, "[schema]", {"columns"}, optional)
    columns = []
    for column in facts["columns"]:
        plain = {k: float(v) if isinstance(v, Decimal) else v for k, v in column.items()}
        if "name" not in plain:
            raise StudyError(f"Expected a name for each column of [schema], got {plain}.")
        columns.append(column_from_dict(plain))
    return Schema(*columns, **{key: facts[key] for key in optional if key in facts})


def _analysis(facts: Mapping[str, Any]) -> Analysis:
    rest = dict(facts)
    name = rest.pop("name", None)
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise StudyError(f"Expected each [[analysis]] to have a simple name, got {name!r}.")
    if "how" not in rest or not isinstance(rest["how"], Mapping):
        raise StudyError(
            f"Expected analysis {name!r} to say how to spend: "
            'how = { mechanism = "Laplace", epsilon = 0.5 }.'
        )
    how = _how(name, dict(rest.pop("how")))
    options: Any = {key: rest.pop(key) for key in _OPTIONS if key in rest}
    return Analysis(name, model_from_description(rest), how, options)


def _how(name: str, facts: dict[str, Any]) -> Any:
    """A mechanism, method, schedule or subsampling by its name in the registries, or a Budget."""
    for what, known in _KNOWN.items():
        if what in facts:
            asked = str(facts.pop(what))
            if asked not in known:
                raise StudyError(
                    f"Unknown {what} {asked!r} in analysis {name!r}; there are {', '.join(known)}."
                )
            return _made(name, known[asked], facts)
    return _made(name, Budget, facts)


def _made(name: str, constructor: type[Any], facts: Mapping[str, Any]) -> Any:
    """A value from options, which are those of its constructor."""
    options = inspect.signature(constructor).parameters
    for key in facts:
        if key not in options:
            raise StudyError(
                f"Analysis {name!r}: {constructor.__name__} does not take {key}; it may have "
                f"{', '.join(options)}."
            )
    return constructor(**{key: _option(name, key, value) for key, value in facts.items()})


def _option(name: str, key: str, value: Any) -> Any:
    """An option from TOML: decimals for what is spent, floats elsewhere, tables as values.

    `step_size = { schedule = "Polynomial", a = 0.1 }`, `first = { method = ..., epsilon = 0.5 }`,
    `sampling = { subsampling = "Poisson", rate = 0.1 }`.
    """
    if isinstance(value, Mapping):
        return _how(name, dict(value))
    if isinstance(value, list):
        return tuple(_option(name, "", each) for each in value)
    return float(value) if isinstance(value, Decimal) and key not in _SPENT else value


def _check(
    facts: Any, where: str, required: set[str], optional: frozenset[str] | set[str] = frozenset()
) -> None:
    if not isinstance(facts, Mapping):
        raise StudyError(f"Expected {where} to be a table.")
    for key in required - set(facts):
        raise StudyError(f"Expected {key!r} in {where}.")
    for key in set(facts) - required - optional:
        known = ", ".join(sorted(required | optional))
        raise StudyError(f"Unknown {key!r} in {where}; it may have {known}.")
