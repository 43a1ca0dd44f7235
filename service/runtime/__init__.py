"""Models in memory: replicas, the pump that commits and applies, the hub that loads and forgets, snapshots."""
