"""The ward-routing study's numbers, from 50,726 real hospital stays to what `hospital()` needs.

The assignment of patients to wards in the data is observational. What comes out is a *semi-synthetic* truth:
a surface fitted to real outcomes, from which outcomes are drawn. It supports no clinical claim
(docs/hospital.md).

>>> calibration = shipped()
>>> calibration.counts.sum(), calibration.features.shape, calibration.table("30-day").shape
(np.int64(50726), (360, 10), (360, 6))
"""

from tightrope.environments.calibration.calibration import Calibration, contexts, read, shipped, write
from tightrope.environments.calibration.fits import calibrate_hospital

__all__ = ["Calibration", "calibrate_hospital", "contexts", "read", "shipped", "write"]
