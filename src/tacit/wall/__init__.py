"""The only code that sees raw data. PROOFS.md says why what comes out is private."""

from tacit.wall._lease import Lease
from tacit.wall._ledger import Ledger
from tacit.wall._public import Public
from tacit.wall._wall import Wall

__all__ = ["Lease", "Ledger", "Public", "Wall"]
