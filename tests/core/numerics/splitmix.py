"""SplitMix64 with Python integers: the words behind every draw."""

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    """The finaliser."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def word(state, k=0):
    """The k-th word after a state; for a seed, k = 1 gives its first state."""
    return mix((state + k * GAMMA) & MASK)
