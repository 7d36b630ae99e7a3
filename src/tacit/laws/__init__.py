"""Laws of noise and of draws: densities, and exact samplers as functions of random bits.

No data and no entropy: the wall brings both. Audits and inference use the densities.
"""
