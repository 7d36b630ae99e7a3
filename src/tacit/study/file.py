"""A study file: data, schema, budget and analyses in one public TOML text."""

from __future__ import annotations

import inspect
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from tacit.accounting.filters import CompositionName
from tacit.fitting import How, fit, resolve
from tacit.methods import METHODS, Statistics
from tacit.methods.method import Once, Task
from tacit.methods.run import task_of
from tacit.methods.schedules import SCHEDULES
from tacit.models import model_from_description
from tacit.posterior import Posterior, describe
from tacit.spec.budget import Budget
from tacit.spec.checks import meant
from tacit.spec.csv_file import CSV
from tacit.spec.errors import FileError, StudyError, TacitError
from tacit.spec.mechanisms import ADDITIVE
from tacit.spec.plan import SUBSAMPLING
from tacit.spec.protocols import Releaser
from tacit.spec.release import Release
from tacit.spec.sampling import Sampling, SamplingOptions
from tacit.spec.schema import Schema
from tacit.spec.table import Table
from tacit.stores.store import located
from tacit.study.tables import EXAMPLES, HOW_TO_READ, check_table, schema_of, source_of

_KNOWN: Mapping[str, Mapping[str, Any]] = {
    "mechanism": {each.__name__: each for each in ADDITIVE},
    "method": {each.__name__: each for each in METHODS if each is not Statistics},
    "schedule": SCHEDULES,
    "subsampling": {each.__name__: each for each in SUBSAMPLING},
}
_OPTIONS = tuple(SamplingOptions.__annotations__)
_SPENT = ("epsilon", "delta")
_RESULTS = ("summary.csv", "posterior.nc", "release.json", "certificate.json")
# A folder is called so, on every system: no separators, no dot first, and not too long.
_NAME = re.compile(r"[^\W_][^/\\:*?\"<>|\x00-\x1f\x7f]*")
_LONGEST_NAME = 100  # bytes
PLANNING = ("n_units", "epsilons", "repeats", "guess", "rows")


@dataclass(frozen=True)
class Analysis:
    """One question of a study: its name, model, inference method, and sampling options."""

    name: str
    model: Any
    how: How
    options: SamplingOptions


@dataclass(frozen=True)
class Study:
    """What a study file says, checked; nothing has been opened but the file itself.

    Results are written to a folder of the study's own, `<output folder>/<name of the file>`, so
    that several studies may share an output folder. `planning` is the table [plan], for
    `tacit plan`: public guesses. `composition` is how the ledger adds up, `workers` who computes.
    `wall` is there where the records are on a custodian's server, which then says the schema and
    the terms.
    """

    source: Path | CSV | Table | None
    ledger: str
    schema: Schema
    budget: Budget
    analyses: tuple[Analysis, ...]
    output: Path
    planning: Mapping[str, Any] = field(default_factory=dict)
    composition: CompositionName = "basic"
    workers: int | str | None = None
    wall: Any = None

    @classmethod
    def load(cls, path: str | Path, connect: Callable[..., Any] | None = None) -> Study:
        """Read a study file; its paths are relative to it.

        `connect` is `tacit.connect`, for a study whose data are on a server.
        """
        path = Path(path)
        try:
            # Decimals, so that epsilon = 0.1 means one tenth. Editors on Windows put a mark first.
            facts = tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=Decimal)
        except OSError as error:
            raise StudyError(f"Cannot read {path}: {error.strerror}.") from None
        except UnicodeDecodeError:
            hint = _is_table(path) or "Save it as UTF-8 in your editor."
            raise StudyError(f"{path} is not a TOML file: its text is not UTF-8. {hint}") from None
        except tomllib.TOMLDecodeError as error:
            hint = _is_table(path)
            raise StudyError(f"{path} is not a TOML file: {error}.{hint and f' {hint}'}") from None
        where = path.parent
        remote = isinstance(facts.get("data"), Mapping) and "server" in facts["data"]
        own = set() if remote else {"schema", "budget"}  # the custodian's, where there is one
        check_table(facts, "the study", {"data", "analysis"} | own, {"output", "plan"})
        if remote:
            check_table(facts["data"], "[data] with a server", {"server", "dataset"})
        else:
            check_table(facts["data"], "[data]", {"source", "ledger"}, {*HOW_TO_READ, "workers"})
            check_table(facts["budget"], "[budget]", {"epsilon"}, {"delta", "composition"})
        check_table(facts.get("output", {}), "[output]", set(), {"folder"})
        check_table(facts.get("plan", {}), "[plan]", set(), {*PLANNING})
        if not isinstance(facts["analysis"], list) or not facts["analysis"]:
            raise StudyError(
                f"Expected at least one [[analysis]] in the study.{EXAMPLES['analysis']}"
            )
        analyses = tuple(_analysis(a) for a in facts["analysis"])
        folder = facts.get("output", {}).get("folder", "results")
        if len({a.name for a in analyses}) < len(analyses):
            raise StudyError("Expected each [[analysis]] to have its own name.")
        rest: dict[str, Any] = {
            "analyses": analyses,
            "output": where / Path(str(folder)).expanduser() / path.stem,
            "planning": _planning(facts.get("plan", {}), where),
        }
        if remote:
            if connect is None:
                raise StudyError("Expected Study.load(path, tacit.connect): its data are remote.")
            wall = connect(str(facts["data"]["server"]), dataset=str(facts["data"]["dataset"]))
            terms = (wall.schema, wall.budget)
            return cls(None, "", *terms, **rest, composition=wall.composition, wall=wall)
        return cls(
            source=source_of(where, facts["data"]),
            ledger=located(str(facts["data"]["ledger"]), where),
            schema=schema_of(facts["schema"]),
            budget=Budget(facts["budget"]["epsilon"], facts["budget"].get("delta", 0)),
            composition=facts["budget"].get("composition", "basic"),
            workers=facts["data"].get("workers"),
            **rest,
        )

    @property
    def called(self) -> str:
        """What the data are called, without where they are."""
        match self.source:
            case None:
                return str(self.wall.dataset)
            case Table(name=name):
                return name
            case CSV(path=path) | (Path() as path):
                return Path(path).name

    def analysis(self, name: str | None) -> Analysis:
        """The analysis of this name; None will do for the only one."""
        found = [a for a in self.analyses if name in (None, a.name)]
        if len(found) == 1:
            return found[0]
        wanted = "Expected --analysis" if name is None else f"No analysis {name!r}"
        raise StudyError(f"{wanted}; the study has {', '.join(a.name for a in self.analyses)}.")


def seeded(analysis: Analysis, seed: int) -> Analysis:
    """The analysis with a seed for its posterior draws."""
    options: Any = {**analysis.options, "seed": seed}
    Sampling.of(options)  # refused before anything is priced
    return replace(analysis, options=options)


def run_analysis(analysis: Analysis, releaser: Releaser) -> Posterior:
    """Release and fit; asking again replays the stored release.

    Where the posterior follows from a single release, that release says from which model.
    """
    method, task = _method_and_task(analysis, releaser)
    posterior = fit(analysis.model, releaser, analysis.how, name=analysis.name, **analysis.options)
    if _single(method, task) is None or len(posterior.releases) != 1:
        return posterior
    return replace(posterior, releases=(_suggesting(posterior.releases[0], analysis, task),))


def release_analysis(analysis: Analysis, releaser: Releaser) -> Release:
    """The custodian's half: the release alone, with the model it was meant for."""
    method, task = _method_and_task(analysis, releaser)
    once = _single(method, task)
    if once is None:
        raise StudyError(
            f"{type(method).__name__} asks in steps, each question following from the last "
            f"answer: there is no single release of {analysis.name!r} to write. Use tacit run. "
            "Nothing was read or spent."
        )
    query = method.ask(method.start(task))
    release = releaser.release(query, once.mechanism, name=analysis.name)
    return _suggesting(release, analysis, task)


def _method_and_task(analysis: Analysis, releaser: Releaser) -> tuple[Any, Task]:
    method: Any = resolve(analysis.model, releaser, analysis.how)
    return method, task_of(method, analysis.model, releaser, analysis.name, {**analysis.options})


def _single(method: Any, task: Task) -> Once | None:
    """The only payment of a method that asks once."""
    match method.plan(task).payments:
        case (Once() as once,):
            return once
    return None


def _suggesting(release: Release, analysis: Analysis, task: Task) -> Release:
    """The release with its model and the options of its posterior, its seed among them."""
    seed = task.sampling_options["seed"]
    return release.suggesting({**describe(analysis.model), **analysis.options, "seed": seed})


def fit_release(release: Release, **changes: Any) -> Posterior:
    """The analyst's half: the posterior that the release suggests, or a variation of it."""
    if release.analysis is None:
        raise StudyError(
            "This release does not say which model it is for: in Python write "
            "model.posterior(release). Where a method asked in steps, no posterior follows from "
            "its last answer alone, and posterior.nc beside it has the posterior."
        )
    facts = {**release.analysis, **{k: v for k, v in changes.items() if v is not None}}
    options = {key: facts.pop(key) for key in _OPTIONS if key in facts}
    return model_from_description(facts).posterior(release, **options)


def check_writable(folder: Path) -> None:
    """Refuse a folder that results cannot be written to, before anything is spent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        kept = [folder / name for name in _RESULTS if (folder / name).exists()]
        for path in kept:
            if path.is_dir() or not os.access(path, os.W_OK):
                raise PermissionError(0, f"{path.name} cannot be written over")
    except OSError as error:
        raise FileError(
            f"Cannot write results to {_shortened(folder)}: {error.strerror}. Nothing was spent."
        ) from None


def _shortened(path: Path) -> str:
    return text if len(text := str(path)) <= 200 else f"{text[:200]}..."


def write_results(posterior: Posterior, folder: Path) -> None:
    """Summary, posterior, release and certificate, side by side."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        posterior.table().to_csv(folder / "summary.csv")
        posterior.save(folder / "posterior.nc")
        (release,) = posterior.releases
        release.save(folder / "release.json")
        (folder / "certificate.json").write_text(posterior.certificate.to_json() + "\n")
    except OSError as error:
        raise FileError(f"Cannot write results to {folder}: {error.strerror}.") from None


def _is_table(path: Path) -> str:
    """What to write for a table in a study's place."""
    if path.suffix.lower() not in (".csv", ".tsv", ".gz", ".parquet", ".pq"):
        return ""
    return f"It is called as a table is: tacit init {path} writes a study file for one."


def _analysis(facts: Mapping[str, Any]) -> Analysis:
    rest = dict(facts)
    name = rest.pop("name", None)
    sound = isinstance(name, str) and _NAME.fullmatch(name) and name == name.strip(" .")
    if not sound or not name.isprintable() or len(name.encode()) > _LONGEST_NAME:
        raise StudyError(
            "Expected each [[analysis]] to have a simple name, as a folder can be called: a letter "
            f"or digit first, no separators, at most {_LONGEST_NAME} bytes; got "
            f"{str(name)[:200]!r}."
        )
    if "how" not in rest or not isinstance(rest["how"], Mapping):
        raise StudyError(
            f"Expected analysis {name!r} to say how to spend: "
            'how = { mechanism = "Laplace", epsilon = 0.5 }.'
        )
    how = _how(name, dict(rest.pop("how")))
    options: Any = {key: rest.pop(key) for key in _OPTIONS if key in rest}
    try:
        Sampling.of(options)
        model = model_from_description(rest)
    except TacitError as error:
        raise type(error)(f"Analysis {name!r}: {error}") from None
    return Analysis(name, model, how, options)


def _how(name: str, facts: dict[str, Any]) -> Any:
    """A mechanism, method, schedule or subsampling by its name in the registries, or a Budget."""
    for what, known in _KNOWN.items():
        if what in facts:
            asked = str(facts.pop(what))
            if asked == "Budget":
                raise StudyError(
                    f"Expected a budget in analysis {name!r} without a name: "
                    "how = { epsilon = 1, delta = 1e-6 }."
                )
            if asked not in known:
                raise StudyError(
                    f"Unknown {what} {asked!r} in analysis {name!r}; there are "
                    f"{', '.join(known)}{meant(asked, known)}"
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
                f"{', '.join(options)}{meant(key, options)}"
            )
    return constructor(**{key: _option(name, key, value) for key, value in facts.items()})


def _planning(facts: Mapping[str, Any], where: Path) -> dict[str, Any]:
    """The table [plan]: guesses are shares of levels, means and sds, or a file of rows."""
    found = _without_decimals(facts)
    if "rows" in found and "guess" in found:
        raise StudyError("Expected rows or guess in [plan], not both.")
    if "rows" in found:
        found["rows"] = where / str(found["rows"])
    return dict(found)


def _without_decimals(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _without_decimals(each) for key, each in value.items()}
        case list():
            return [_without_decimals(each) for each in value]
        case Decimal():
            return float(value)
    return value


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
