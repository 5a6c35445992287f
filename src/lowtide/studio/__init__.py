"""The studio: a local page and a REST service around the verbs. It computes nothing itself."""
