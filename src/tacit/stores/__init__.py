"""Where a ledger is kept, beside the file that is the default: TRUSTED, with PROOFS-STORES.md.

`store` says what a ledger needs of such a place, `postgres` keeps it in PostgreSQL.
"""
