"""`report.html`: what a study found and what it cost in privacy, in one file for all readers."""

from tacit.report.page import write

__all__ = ["write"]
