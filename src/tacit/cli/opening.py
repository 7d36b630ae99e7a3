"""What a study is run on: a wall of this process, or that of a custodian's server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.study.file import Study
    from tacit.wall.chain import Chain


def loaded(path: Path) -> Study:
    """A study file; connects where its data are on a server."""
    import tacit
    from tacit.study.file import Study

    return Study.load(path, tacit.connect)


def opened(study: Study) -> tuple[Any, Any]:
    """The wall of a study, and its ledger."""
    from tacit.wall import Ledger, Wall

    if study.wall is not None:
        return study.wall, study.wall.ledger
    terms = {"budget": study.budget, "ledger": study.ledger, "composition": study.composition}
    terms["workers"] = study.workers
    return Wall(study.source, study.schema, **terms), Ledger(study.ledger)


def known_chain(study: Study) -> Chain | None:
    """What its ledger says, if there is one; none is made."""
    from tacit.wall import Ledger

    ledger = Ledger(study.ledger) if study.wall is None else study.wall.ledger
    return ledger.read() if study.wall is not None or ledger.store.exists() else None
