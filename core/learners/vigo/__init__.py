"""VIGO, VIGOd and VIGOw: one Gaussian per class by variational Bayes."""
