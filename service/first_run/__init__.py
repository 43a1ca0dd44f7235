"""The kernels of core, compiled once per installation: which there are, which Numba's cache holds, and the rest."""
