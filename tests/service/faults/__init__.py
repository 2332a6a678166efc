"""Machinery that makes the service fail: lost power, killed processes, dead databases, and models to judge what is left."""
