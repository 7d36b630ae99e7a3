"""The only code that sees raw data. PROOFS.md says why what comes out is private.

To read it, in this order:

- the gate: `_wall` charges, reads, adds noise and lets go; `_lease` does so in steps, `_replay`
  again; `_evaluate` finds who answers a query; `_public` is the same without privacy;
- what was spent: `_ledger`, and its chain of hashes in `_chain`;
- from a file to columns: `_source`, `_files`, `_columns`, `_cells`, then `_rows` or `_documents`;
- one unit's bounded share of a sum: `_clip`, and around it the maps of analysts, run by `_sums` in
  Numba (`_maps`, `_guard`), JAX (`_jax`) or the engine (`_sql`);
- other answers, a file each: `_counts`, `_moments`, `_draw`, `_choice`, `_states`, `_density`,
  `_logistic`;
- chance: `_noise` and `_batches`. The laws themselves are in `tacit.laws`, which sees no data.
"""

from tacit.wall._lease import Lease
from tacit.wall._ledger import Ledger
from tacit.wall._public import Public
from tacit.wall._wall import Wall

__all__ = ["Lease", "Ledger", "Public", "Wall"]
