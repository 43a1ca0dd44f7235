"""The routes of models: created, changed, listed, saved, challenged."""
