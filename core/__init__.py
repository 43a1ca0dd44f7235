"""The algorithms and the state machine of Onepass: NumPy, SciPy and Numba in, arrays out."""
