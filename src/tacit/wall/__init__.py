"""The only code that sees raw data. PROOFS.md says why what comes out is private.

To read it, in this order:

- the gate: `_wall` charges, reads, adds noise and lets go; `_lease` does so in steps, `_replay`
  again; `_evaluate` finds who answers a query; `_public` is the same without privacy;
- what was spent: `_ledger`, and its chain of hashes in `_chain`;
- `data`: from a file to rows and documents;
- `chance`: noise, and who takes part in a step;
- `sums`: one unit's bounded share of a sum, and the maps of analysts around it;
- `answers`: counts, moments, draws and the rest, a file each.
"""

from tacit.wall._lease import Lease
from tacit.wall._ledger import Ledger
from tacit.wall._public import Public
from tacit.wall._wall import Wall

__all__ = ["Lease", "Ledger", "Public", "Wall"]
