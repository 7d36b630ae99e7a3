"""Tier 2: leases and bounded sums.

`lease` takes steps that were paid for, `kept` gives them again, `batches` says who takes part.
`sums` runs a kernel (`loops`) or a program (`programs`) over units; `clip` bounds what one adds.
"""
