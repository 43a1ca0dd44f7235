"""Intervals around the predictions of a regression: adaptive conformal inference."""
