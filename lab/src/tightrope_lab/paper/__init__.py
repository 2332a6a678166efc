"""The paper's studies: what it reports, run again, set beside what was measured."""

from tightrope_lab.paper.reproduce import STUDIES, reproduce

__all__ = ["STUDIES", "reproduce"]
