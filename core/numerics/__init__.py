"""Numerical policy shared by every learner: matrix inversion, BLAS threads, reproducible random draws."""
