"""Closed forms: hockey-stick divergence, randomised response, redraw, calibration, composition, sizes and shares."""

from lowtide.theory import calibration, composition, hockey_stick, redraw, response, sample_size, shares

__all__ = ["calibration", "composition", "hockey_stick", "redraw", "response", "sample_size", "shares"]
