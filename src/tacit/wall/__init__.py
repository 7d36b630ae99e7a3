"""The only code that answers questions about raw data. PROOFS.md says why it is private.

To read it, in this order:

- tier 1, the gate: `wall` charges, reads, adds noise and lets go; `answers` says who answers what;
  `ledger`, its `chain` of hashes and its `store` remember what was spent; `shield` keeps what was
  read out of errors; `noise` is exact; `statistics` are counts and moments;
  then what these rest on: `accounting` (`calibrate`, `gaussian`, `moments`, `filters`), `laws`
  (`discrete`, `bulk`, `strips`), and `spec` (`budget`, `schema`, `columns`, `queries`, `moments`);
- tier 2, `steps`: leases, and bounded sums of kernels and programs.

Where records are, and what a cell means, is in `tacit.sources`; the one-unit functions are in
`tacit.kernels`; draws of the exponential mechanism are in `tacit.draws`.
"""

from tacit.wall.ledger import Ledger
from tacit.wall.steps.lease import Lease
from tacit.wall.wall import Wall

__all__ = ["Lease", "Ledger", "Wall"]
