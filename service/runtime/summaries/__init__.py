"""What lists show of models: kept in the store close behind them, and read without loading any."""
