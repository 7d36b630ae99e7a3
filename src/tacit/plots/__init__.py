"""Pictures of posteriors, of releases and of ledgers, with matplotlib.

Each function returns the axes on which it drew, and draws on `ax=` if it is given; `ax.figure`
saves them. Colours are those of Okabe and Ito, which the colour-blind can tell apart.
"""

from tacit.plots.estimates import effects, forest, intervals, noise, posterior
from tacit.plots.hidden_states import profiles, state_map
from tacit.plots.pictures import Picture, pictures
from tacit.plots.privacy import accuracy, ledger
from tacit.plots.topics import perplexity, topics

__all__ = [
    "Picture",
    "accuracy",
    "effects",
    "forest",
    "intervals",
    "ledger",
    "noise",
    "perplexity",
    "pictures",
    "posterior",
    "profiles",
    "state_map",
    "topics",
]
