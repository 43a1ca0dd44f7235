"""Boosted trees over the last rows."""
