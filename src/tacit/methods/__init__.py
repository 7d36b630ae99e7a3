"""Methods spend: they know a releaser and a model, and nothing of the data."""
