"""The routes of models: create, change, list, save and challenge them."""
