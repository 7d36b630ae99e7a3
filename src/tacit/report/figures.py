"""Pictures as SVG inside the page, coloured by its style sheet to suit light and dark."""

from __future__ import annotations

import io
import re
from html import escape

import matplotlib
from markupsafe import Markup
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tacit.plots import Picture
from tacit.plots.canvas import OKABE_ITO

WIDTH = 4.6  # inches: readable on a phone
_INK = "#010203"  # stands for the colour of the page's text
_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tacit",
    "font.size": 9,
    "grid.linewidth": 0.4,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    **{f"{what}.color": _INK for what in ("text", "xtick", "ytick", "grid")},
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
}


def inline_svg(picture: Picture, number: int, words: str) -> Markup:
    """Return a picture as SVG for a page; `words` tell it to those who do not see it."""
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, picture.height), layout="constrained")
        picture.draw(figure.subplots())
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    for k, colour in enumerate(OKABE_ITO[:-1]):
        text = text.replace(to_hex(colour), f"var(--series-{k})")
    text = text.replace(_INK, "currentColor").replace("#000000", "currentColor")
    # Names inside a page are shared by all its pictures.
    name = f"figure-{number}"
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    box = re.search(r'viewBox="[^"]*"', text)
    head = (
        f'<svg {box.group() if box else ""} role="img" aria-labelledby="{name}-words">'
        f'<title id="{name}-words">{escape(words)}</title>'
    )
    return Markup(re.sub(r"<svg\b[^>]*>", lambda _: head, text, count=1))
