"""Laws of draws: densities, and exact samplers as functions of uniform numbers.

No data and no entropy. The wall draws with them, audits and inference use their densities.
"""
