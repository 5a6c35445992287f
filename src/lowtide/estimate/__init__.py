"""TIDE: objectives, critics, fitting, the frozen `Density`."""
