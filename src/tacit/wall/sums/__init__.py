"""Bounded sums: an analyst's map over one unit at a time, clipped and added up in integers.

`_clip` bounds what one unit adds. Around it maps run in Numba (`_maps`, `_guard`), in JAX (`_jax`)
or in the engine (`_sql`), and `_sums` puts them together.
"""
