"""Models in memory: loaded, applied, followed, saved, evicted."""
