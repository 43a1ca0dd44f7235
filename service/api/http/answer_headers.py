"""Headers that answers have for browsers, and for balancers."""

NOSNIFF = (b"x-content-type-options", b"nosniff")
ALWAYS = (NOSNIFF, (b"cross-origin-resource-policy", b"same-origin"))
"""Browsers must not guess the media type of an answer, and pages of other sites must not embed one."""
PAGES = ((b"referrer-policy", b"no-referrer"), (b"x-frame-options", b"DENY"))
"""Headers of pages: send no referrer, allow no frames."""
MODEL = b"x-onepass-model"
"""Header with the model's name, for load balancers and their logs."""
