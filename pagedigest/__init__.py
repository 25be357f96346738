"""pagedigest: what a web agent reads at each step, region by region."""

from pagedigest.observation import Action, Observation, ObservationModule, ObservationSession, Usage

__all__ = ["Action", "Observation", "ObservationModule", "ObservationSession", "Usage"]
__version__ = "0.1.0"
