"""What took long to measure, in a file: an interrupted run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Kept:
    """Scores by whatever tells them apart; in memory alone without a path."""

    path: Path | None = None
    scores: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | None) -> Kept:
        known = json.loads(path.read_text()) if path is not None and path.is_file() else {}
        return cls(path, known)

    def get(self, key: str, measure: Callable[[], Any]) -> Any:
        if key not in self.scores:
            self.scores[key] = measure()
            if self.path is not None:
                beside = self.path.with_suffix(".new")
                beside.write_text(json.dumps(self.scores, indent=0))
                os.replace(beside, self.path)
        return self.scores[key]
