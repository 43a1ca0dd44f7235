"""ODM and dynamic ODM: optimal margin distribution machines."""
