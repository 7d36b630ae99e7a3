"""Types that the laws share."""

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Uniform = Callable[[int], Array]  # so many numbers strictly between 0 and 1
