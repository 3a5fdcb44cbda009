from __future__ import annotations

from hypothesis import settings

# A busy machine is no bug; what must be bounded is counted, not timed.
settings.register_profile("ostler", deadline=None)
settings.load_profile("ostler")
