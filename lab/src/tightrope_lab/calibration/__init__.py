"""The ward-routing study's numbers, from 50,726 real hospital stays to what `tightrope.environments.hospital` needs.

The assignment of patients to wards in the data is observational. What comes out is a *semi-synthetic* truth:
a surface fitted to real outcomes, from which outcomes are drawn. It supports no clinical claim
(docs/hospital.md).
"""

from tightrope_lab.calibration.file import write
from tightrope_lab.calibration.fits import calibrate_hospital
from tightrope_lab.calibration.report import report

__all__ = ["calibrate_hospital", "report", "write"]
