"""What must be there for a request to be taken up, where nobody drives its session."""

from __future__ import annotations

from ostler.vocabulary import requests

MOVING = (
    requests.Prompt,
    requests.Continue,
    requests.Answer,
    requests.Cancel,
    requests.Resume,
    requests.FinishCall,
    requests.ReleasePrompts,
)
"""Requests that let a session move: when nobody drives it, it is driven for them."""

ALONE = (
    requests.Rename,
    requests.Label,
    requests.Navigate,
    requests.UndoCompaction,
    requests.RevokePermission,
    requests.TakeBack,
    requests.Keys,
    requests.Resize,
)
"""Requests that need no model and no extension: when nobody drives the session, the log is enough."""

OF_A_RUN = (
    requests.Steer,
    requests.Answer,
    requests.Cancel,
    requests.Pause,
    requests.Resume,
    requests.FinishCall,
)
"""Requests that are refused where no run is open, which takes no more than the log."""
