"""Progress bars for long work. They count steps and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator


def counted(steps: int, what: str, show: bool | None) -> Iterator[int]:
    """0, 1, ... with a bar on a terminal, or where it is asked for."""
    if not (sys.stderr.isatty() if show is None else show):
        yield from range(steps)
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(range(steps), what, console=Console(stderr=True), transient=True)
