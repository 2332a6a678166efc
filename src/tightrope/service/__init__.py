"""Stub while written."""
