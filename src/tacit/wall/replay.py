"""Answers that were given before: they are stored, and asking again is free."""

from __future__ import annotations

from dataclasses import replace

from tacit.spec.release import Release
from tacit.wall.ledger import Stored


def replayed(stored: Stored) -> Release:
    """A release that was given before, with a certificate that says so."""
    return marked(Release.from_json(stored.body), stored.time)


def marked(release: Release, time: str) -> Release:
    """The release with a certificate that says that it is stored, and from when."""
    note = (
        f"answered again from the ledger: first released {time}; "
        "data that changed since are not in it"
    )
    return replace(release, certificate=release.certificate.assuming((note,)))
