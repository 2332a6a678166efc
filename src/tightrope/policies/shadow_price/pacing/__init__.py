"""Limits by window: what is left is spread over the decisions still to come."""
