"""Headers that answers have for browsers, and for balancers."""

NOSNIFF = (b"x-content-type-options", b"nosniff")
ALWAYS = (NOSNIFF, (b"cross-origin-resource-policy", b"same-origin"))
"""A browser takes an answer for nothing but what its media type says, and pages of others embed none."""
PAGES = ((b"referrer-policy", b"no-referrer"), (b"x-frame-options", b"DENY"))
"""Of what may be a page: its address stays here, and nobody frames it."""
MODEL = b"x-onepass-model"
"""Of an answer to a request of one model: its name, for balancers and their logs."""
