"""FESL-c and FESL-s: online gradient descent made for a change of features."""
