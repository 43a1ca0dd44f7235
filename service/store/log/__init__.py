"""The log of a model: appends, entries, their bytes."""
