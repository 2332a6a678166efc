"""Published algorithms that the league compares with, and the policy that the theorems cover.

They join those of the product by the entry points in `lab/pyproject.toml`: `tr.policies.UCBALP`, or `ucb-alp` in a spec.
"""
