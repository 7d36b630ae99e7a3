"""`tacit serve --demo`: a simulated hospital behind a server, with an account to try it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tacit.custodian.accounts import Accounts
from tacit.custodian.custody import Custody
from tacit.datasets import write_demo
from tacit.spec.errors import FileError

CUSTODY = """\
# Who holds what, and on which terms. Paths are relative to this file.
[server]
folder = "server"

[datasets.incidents]
about = "Incidents of simulated patients: nobody is in them."
source = "incidents.csv"
ledger = "incidents.ledger"
# What a budget protects, and how releases add up: one ledger for these people, for ever.
budget = { epsilon = 3.0, delta = 1e-6 }
# What may be asked: a single question of at most this epsilon, unless the custodian approves it.
policy = { largest_epsilon = 1.0 }

[datasets.incidents.schema]
unit = "patient"
max_rows_per_unit = 3
neighbours = "replace_one"

[[datasets.incidents.schema.columns]]
name = "harm"
type = "categorical"
levels = ["no", "yes"]

[[datasets.incidents.schema.columns]]
name = "kind"
type = "categorical"
levels = ["fall", "medication", "device", "other"]

[[datasets.incidents.schema.columns]]
name = "month"
type = "time"
start = "2025-01"
end = "2025-12"
"""
_PASTE = """
The account "you" may spend all of its budget. Records stay in the server; in a notebook, paste:

import tacit

wall = tacit.connect("{url}/incidents", token="{token}")
model = tacit.BetaBernoulli("harm", success="yes")
posterior = tacit.fit(model, wall, tacit.Laplace(0.5), name="harm")
print(posterior.summary())
print(posterior.certificate)

Truth: 18 in 100 incidents did harm. Pages for people are at {url}/: sign in with the token.
Ctrl-C ends the server."""


def simulated(folder: Path, port: int) -> tuple[Custody, str]:
    """Write the simulated table, its custody.toml and an account; return them with a token."""
    path = folder / "custody.toml"
    if folder.exists() and any(folder.iterdir()) and not path.exists():
        raise FileError(f"{folder.absolute()} is not a demo's: start it in another folder.")
    write_demo(folder)
    path.write_text(CUSTODY, encoding="utf-8")
    custody = replace(Custody.load(path), port=port)
    accounts = Accounts(custody.accounts)
    accounts.create()
    known = [each.name for each in accounts.listed()]
    token = accounts.renew("you") if "you" in known else accounts.add("you", days=7)
    accounts.allow("you", "incidents", custody.datasets[0].offer.budget)
    return custody, token


def to_paste(url: str, token: str) -> str:
    """What to paste into a notebook."""
    return _PASTE.format(url=url, token=token)
