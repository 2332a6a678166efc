"""The paper's studies: what it reports, run again, set beside what was measured."""

from tightrope.studies.reproduce import STUDIES, reproduce

__all__ = ["STUDIES", "reproduce"]
