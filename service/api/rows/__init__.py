"""The routes of rows, one by one and in batches."""
