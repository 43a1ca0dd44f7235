"""The kernels of core, compiled once per installation: finds those that Numba's cache lacks, and compiles them."""
