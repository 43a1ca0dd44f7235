"""Models in memory: replicas, the committer, the cache of loaded models, snapshots."""
