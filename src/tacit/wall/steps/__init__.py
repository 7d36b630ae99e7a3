"""Tier 2: leases and bounded sums.

`plans` pays for steps, `lease` takes them, `kept` gives them again, `batches` says who takes part.
`sums` runs a kernel (`loops`) or a program (`programs`) over units; `clip` bounds what one adds.
"""
