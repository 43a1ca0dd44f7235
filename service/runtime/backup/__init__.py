"""Backups made from the models as they stand, and restored into a store."""
