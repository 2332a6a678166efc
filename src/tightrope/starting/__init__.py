"""A guided start: from a table, or from answers to questions, to a spec, a first simulation and a page about it."""

from tightrope.starting.proposal import Proposal, propose
from tightrope.starting.questions import Answers
from tightrope.starting.start import Start, start

__all__ = ["Answers", "Proposal", "Start", "propose", "start"]
