"""Kernels: what one row or one document contributes to a bounded sum, by name.

A query names a kernel of this closed registry and gives it a public state, a tuple of arrays. Each
kernel is a compiled function of one unit's data and the state alone; `check` refuses what it cannot
be run on safely. One contract test runs over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tacit.kernels import (
    belief_networks,
    latent_classes,
    logistic,
    mixtures,
    tables,
    topics,
    walks,
    whitened,
)
from tacit.kernels.kernel import AnyKernel, DocumentKernel, RowKernel

_FAMILIES = (belief_networks, latent_classes, logistic, mixtures, tables, topics, walks, whitened)

KERNELS: Mapping[str, AnyKernel] = MappingProxyType(
    dict(sorted((kernel.name, kernel) for family in _FAMILIES for kernel in family.KERNELS))
)

__all__ = ["KERNELS", "AnyKernel", "DocumentKernel", "RowKernel"]
