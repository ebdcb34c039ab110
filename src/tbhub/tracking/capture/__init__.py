"""Finding the event files that a run's command writes outside of the run's directory."""
