"""Every observation method of the literature as an `ObservationModule`, each faithful to its paper (README.md here)."""
