"""Trusted and data-free: what noise costs, and how much of it a guarantee needs."""

from tacit.accounting.api import epsilon, noise_multiplier
from tacit.accounting.bounded_range import exponential_epsilon
from tacit.accounting.calibrate import (
    Calibration,
    Sensitivity,
    calibrate,
    laplace_scale,
    sensitivity_factor,
)
from tacit.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from tacit.accounting.plans import plan_epsilon

__all__ = [
    "Calibration",
    "Sensitivity",
    "calibrate",
    "epsilon",
    "exponential_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "laplace_scale",
    "noise_multiplier",
    "plan_epsilon",
    "sensitivity_factor",
]
