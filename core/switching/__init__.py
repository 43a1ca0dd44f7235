"""A change of features: the phases of a switch, the mapping between spaces, and the experts after it."""
