"""A smoke run of `vips.py`: the facts that must not change with the seeds."""

import dataclasses
import gzip
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

pytestmark = [pytest.mark.no_cover, pytest.mark.slow]
FOLDER = Path(__file__).parents[2] / "reproductions"


@pytest.fixture(scope="module")
def vips(tmp_path_factory):
    """The results of `vips.py --quick`, on 2,000 simulated documents, and its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        import vips as script
    folder = tmp_path_factory.mktemp("vips")
    kept = script.Kept.load(folder / "topics.json")
    return script.reproduce(folder, script.QUICK, [], kept), folder


def test_the_page_of_vips_shows_every_picture(vips):
    _, folder = vips
    text = (folder / "vips.md").read_text()
    shown = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert {folder / name for name in shown} == set(folder.glob("*.png"))
    assert len(shown) == 1
    assert "no private release" in " ".join(text.split())


def test_topics_know_more_than_frequencies(vips):
    # Epsilon 5, 2,000 documents of 200 words, 5 topics: 50 without privacy, 78 by frequencies
    # alone, about 45 by default; the paper's need more noise with each thing that it takes away.
    measures, (one,) = sys.modules["vips_measures"], vips[0]
    for what in ("completion", "bound"):
        score = {method: found[what] for (method, _), found in one.scores.items()}
        assert score[measures.NONE] < 0.8 * score[measures.UNIGRAM]
        assert score[measures.OURS] < 0.8 * score[measures.UNIGRAM]
        assert score[measures.OURS] < score[measures.PAPER] < score[measures.STRONG]
        assert score[measures.PAPER] < score[measures.UNCLIPPED]


def test_the_clip_shortens_uneven_documents(vips):
    measures, (one,) = sys.modules["vips_measures"], vips[0]
    words = one.corpus.words
    topics = np.full((len(words), 1), 1e6)
    # One topic: a document of m different words once each has norm 500 / sqrt(m), and m = 100 is
    # where the clip of 50 begins.
    counts = np.zeros((4, len(words)))
    for row, m in enumerate((1, 99, 101, 200)):
        counts[row, :m] = 1
    made = dataclasses.replace(one.corpus, train=csr_matrix(counts), topics=1)
    assert measures.clipped(made, topics) == 0.5


def test_kept_topics_are_not_fitted_again(vips, monkeypatch):
    script, (_, folder) = sys.modules["vips"], vips
    monkeypatch.delattr(sys.modules["vips_measures"], "posterior")
    kept = script.Kept.load(folder / "topics.json")
    (again,) = script.reproduce(folder, script.QUICK, [], kept)
    assert again.scores == vips[0][0].scores


def test_a_prefix_of_wikipedia(vips, tmp_path):
    data = sys.modules["vips_data"]
    assert data.wikipedia(tmp_path) == []
    home = tmp_path / "wikipedia_bow"
    home.mkdir()
    counts = csr_matrix(np.tile([[30, 0], [0, 19], [5, 15]], (4, 1)))
    save_npz(home / "wikipedia_bow.npz", counts)
    (home / "vocab.txt").write_text("station\nline\n")
    split = "".join(f"{'test' if i == 0 else 'train'}\n" for i in range(12))
    with gzip.open(home / "docs.csv.gz", "wt") as file:
        file.write(f"split\n{split}")
    (home / "load_wikipedia.py").write_text(
        "import scipy.sparse\n"
        "def load(npz, vocab):\n"
        "    return scipy.sparse.load_npz(npz), vocab.read_text().split()\n"
    )
    every, some = data.wikipedia(tmp_path, 3)
    assert (every.size, some.size, every.test.shape) == (7, 3, (1, 2))
    np.testing.assert_array_equal(some.train.toarray(), [[5, 15], [30, 0], [5, 15]])
    assert [one.size for one in data.wikipedia(tmp_path, 10)] == [7]
