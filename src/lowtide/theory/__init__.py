"""Closed forms: the hockey-stick divergence, calibration of noise, composition, sample sizes."""

from lowtide.theory import calibration, composition, hockey_stick, sample_size

__all__ = ["calibration", "composition", "hockey_stick", "sample_size"]
