"""Closed forms: the hockey-stick divergence, randomised response, calibration, composition, sample sizes, shares."""

from lowtide.theory import calibration, composition, hockey_stick, response, sample_size, shares

__all__ = ["calibration", "composition", "hockey_stick", "response", "sample_size", "shares"]
