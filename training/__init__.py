"""Training of region4web's models: `python -m training.X`."""
