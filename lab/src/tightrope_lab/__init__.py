"""Tightrope's laboratory: the paper's studies, the league, the evidence for the default policy, benchmarks, calibration.

It supports what the product claims, and imports the product; never the other way round. Its commands (`tightrope_lab.commands`) and
its policies (`tightrope_lab.policies`) join `tightrope` when it is installed.
"""
