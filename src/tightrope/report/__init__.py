"""Figures, numbers for people, and pages made of them: one HTML file that needs nothing else."""

from tightrope.report.bars import bars_figure, last_violation_figure
from tightrope.report.calibration import Calibration, calibration_figure
from tightrope.report.curves import NamedCurve, Panel, curve_figure, panels_figure
from tightrope.report.images import png_bytes, save_figure, svg_text
from tightrope.report.limits import limit_figure
from tightrope.report.numbers import Cell, format_estimate, format_number
from tightrope.report.page import Report

__all__ = ["Calibration", "Cell", "NamedCurve", "Panel", "Report"]
__all__ += ["bars_figure", "calibration_figure", "curve_figure", "last_violation_figure", "limit_figure"]
__all__ += ["panels_figure"]
__all__ += ["format_estimate", "format_number", "png_bytes", "save_figure", "svg_text"]
