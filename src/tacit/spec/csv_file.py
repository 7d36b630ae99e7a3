"""A CSV file that is not UTF-8 with commas: how its bytes are to be read. Opens nothing."""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass
from pathlib import Path

from tacit.spec.checks import one_of, set_fields
from tacit.spec.errors import SourceError

_UNUSED = 0xE000  # where Unicode's private letters begin


@dataclass(frozen=True)
class CSV:
    """A CSV file with its encoding, its separator and its decimal sign.

    Parameters
    ----------
    path
        The file, also gzipped (.gz).
    encoding
        "utf-8", or one with a byte for each letter, such as "latin-1", "cp1252" or "iso-8859-15".
    separator
        What stands between cells. Default: a comma, in a .tsv a tab.
    decimal
        "." or ",": what stands before decimals in the schema's Real and Integer columns.

    Examples
    --------
    >>> CSV("visits.csv", encoding="latin-1", separator=";", decimal=",").separator
    ';'
    """

    path: str | os.PathLike[str]
    encoding: str = "utf-8"
    separator: str | None = None
    decimal: str = "."

    def __post_init__(self) -> None:
        path = Path(self.path)
        if path.suffix.lower() in (".parquet", ".pq"):
            raise SourceError(f"Expected a CSV file, got {path}: a Parquet file needs no encoding.")
        separator = self.separator
        if separator is None:
            separator = "\t" if ".tsv" in path.name.lower() else ","
        one_of(separator, "separator", (",", ";", "\t", "|", ":"), SourceError)
        one_of(self.decimal, "decimal", (".", ","), SourceError)
        set_fields(self, path=path, separator=separator)
        _ = self.letters

    @property
    def letters(self) -> dict[int, str] | None:
        """The letter of each byte; None for UTF-8. By bytes alone, so that no cell spoils others.

        A byte that stands for nothing has a letter of its own, beyond all that are in use: names
        of units that differ in it must not become equal.
        """
        try:
            if codecs.lookup(self.encoding).name in ("utf-8", "utf-8-sig", "ascii"):
                return None
            letters = [bytes([byte]).decode(self.encoding, "replace") for byte in range(256)]
            if bytes(range(256)).decode(self.encoding, "replace") != "".join(letters):
                letters = []  # several bytes make a letter
        except (LookupError, TypeError, ValueError):
            letters = []
        letters = [
            chr(_UNUSED + byte) if letter == "\ufffd" else letter
            for byte, letter in enumerate(letters)
        ]
        ascii_ = [chr(byte) for byte in range(128)]
        if letters[:128] != ascii_ or len(set(letters)) < 256 or any(map(_long, letters)):
            raise SourceError(
                f"Expected encoding={self.encoding!r} to be utf-8, or to have a byte for each "
                "letter, such as latin-1 or cp1252; write a file in any other as UTF-8 first, "
                f"for example: iconv -f utf-16 -t utf-8 {Path(self.path).name} > utf8.csv"
            )
        return dict(enumerate(letters))


def _long(letter: str) -> bool:
    return len(letter) != 1
