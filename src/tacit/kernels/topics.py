"""Topic models: the contribution of one document, by words and topics or by pairs of words.

Words are distinct positions in the vocabulary, or in the subset of it that an index map names.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from tacit.kernels.compiling import compiled
from tacit.kernels.kernel import DocumentKernel, Given
from tacit.kernels.mixing import (
    divide_counts,
    fit_proportions,
    gather_columns,
    padded,
)

MOST_ROUNDS, MOST_LENGTH, LARGEST_SEED = 1000, 10**6, 2**53
ALPHA, TOLERANCE, LENGTH = range(3)  # in `settings`
ROUNDS, ROOTS, SEED = range(3)  # in `options`


@compiled
def expected_counts(words, weights, state, out):
    """Add the expected counts of a document's words in each topic.

    The document counts as one of `length` words; 0 leaves it as it is. One document contributes
    numbers of at least 0 that sum to its length at most. With roots = 1 its words have the roots of
    their counts instead, and all of its numbers together have norm 1, to single precision.
    State: table f4[vocabulary, topics], words by topics, as `flush_denormals` makes it; word_mask
    f4[vocabulary], how much each word counts for the document's proportions; settings f8[3], the
    prior's alpha, the tolerance and the length; options i8[3], the number of rounds at most, roots
    (0 or 1) and a seed. Words are rows of the table, which has the shape of the block.
    """
    table, word_mask, settings, options = state
    count, topics = out.shape
    total = weights.sum()
    if not total > 0:
        return
    scale = settings[LENGTH] / total if settings[LENGTH] > 0 else 1.0
    columns = np.zeros((topics, padded(count)), np.float32)
    counts = np.zeros(columns.shape[1], np.float32)
    gather_columns(table, words, columns)
    for i in range(count):
        counts[i] = weights[i] * scale * word_mask[words[i]]
    gamma = np.zeros(topics, np.float32)
    theta = np.zeros_like(gamma)
    tolerance, rounds = settings[TOLERANCE], options[ROUNDS]
    fit_proportions(columns, counts, settings[ALPHA], tolerance, rounds, gamma, theta)
    if options[ROOTS] > 0:
        divide_counts(table, words, columns, theta, np.sqrt(weights), 1.0, out)
    else:
        divide_counts(table, words, columns, theta, weights * scale, 0.0, out)


@compiled
def expected_counts_resampled(words, weights, state, out):
    """Add expected counts of `length` words drawn from the document with replacement.

    As in Park et al. (2020). The generator is seeded by the public seed and the document's own
    words. One document contributes numbers as for `expected_counts`, from the words that were
    drawn. State: as for `expected_counts`. A drawn position is cut to the document's last word.
    """
    cumulative = np.cumsum(weights)
    if cumulative.size == 0 or not cumulative[-1] > 0:
        return
    drawn = np.zeros(weights.size)
    now = np.uint64(state[3][SEED])
    for word in words:
        now = _next(now ^ np.uint64(word))
    for _ in range(int(state[2][LENGTH])):
        now = _next(now)
        share = np.float64(now >> np.uint64(11)) / 9007199254740992.0
        found = np.searchsorted(cumulative, share * cumulative[-1], "right")
        drawn[min(found, drawn.size - 1)] += 1
    expected_counts(words, drawn, state, out)


@compiled
def _next(now):
    """A step of xorshift64*, which never comes to 0 from elsewhere."""
    now = now | np.uint64(now == 0)
    now ^= now >> np.uint64(12)
    now ^= now << np.uint64(25)
    now ^= now >> np.uint64(27)
    return now * np.uint64(2685821657736338717)


@compiled
def root_frequencies(words, weights, state, out):
    """Add the square root of each word's relative frequency in the document.

    One document contributes one number of at least 0 for each word, together of norm 1.
    State: empty. The block has one number for each word, and so has out.
    """
    total = weights.sum()
    if not total > 0:
        return
    for i in range(words.size):
        out[i, 0] = np.sqrt(weights[i] / total)


@compiled
def cooccurrence(words, weights, state, out):
    """Add which words of the subset occur together: roots of products, above the diagonal.

    One document contributes sqrt(weight[i] weight[j] / all pairs) for positions i < j, numbers of
    at least 0 that together have norm 1.
    State: positions i8[vocabulary], the index map of the subset. Only pairs of the document's own
    words are written, at their indices in the document.
    """
    total = weights.sum()
    squares = (weights**2).sum()
    pairs = (total**2 - squares) / 2
    if not pairs > 0:
        return
    for i in range(words.size):
        for j in range(words.size):
            if words[i] < words[j]:
                out[i, j] = np.sqrt(weights[i] * weights[j] / pairs)


def _counts_rules(given: Given) -> None:
    words, topics = given.sizes["vocabulary"], given.sizes["topics"]
    given.expect(words == given.sizes["words"], f"a table of {given.sizes['words']} words")
    given.expect(given.sizes["width"] == topics, f"{topics} topics, as the table has")
    alpha, tolerance, length = given.arrays["settings"].tolist()
    rounds, roots, seed = given.arrays["options"].tolist()
    given.expect(alpha > 0, f"alpha={alpha} > 0")
    given.expect(tolerance >= 0, f"tolerance={tolerance} >= 0")
    given.expect(0 <= length <= MOST_LENGTH, f"length={length} from 0 to {MOST_LENGTH}")
    given.expect(0 <= rounds <= MOST_ROUNDS, f"rounds={rounds} from 0 to {MOST_ROUNDS}")
    given.expect(roots in (0, 1), f"roots={roots} to be 0 or 1")
    given.expect(0 <= seed <= LARGEST_SEED, f"seed={seed} from 0 to {LARGEST_SEED}")


def _one_number_rules(given: Given) -> None:
    given.expect(given.sizes["width"] == 1, "one number for each word")


_COUNTS = "table f4[vocabulary, topics]; word_mask f4[vocabulary]; settings f8[3]; options i8[3]"

KERNELS = (
    DocumentKernel("topics.expected_counts", expected_counts, _COUNTS, _counts_rules),
    DocumentKernel(
        "topics.expected_counts_resampled", expected_counts_resampled, _COUNTS, _counts_rules
    ),
    DocumentKernel("topics.root_frequencies", root_frequencies, "", _one_number_rules),
    DocumentKernel(
        "topics.cooccurrence",
        cooccurrence,
        "positions i8[vocabulary]",
        vocabulary_subset=True,
        pairs=True,
    ),
)
