"""What must be there for a request to be taken up, where nobody drives its session."""

from __future__ import annotations

from ostler.vocabulary.requests import (
    Answer,
    Cancel,
    Continue,
    FinishCall,
    Keys,
    Label,
    Navigate,
    Pause,
    Prompt,
    ReleasePrompts,
    Rename,
    Resize,
    Resume,
    RevokePermission,
    Steer,
    TakeBack,
    UndoCompaction,
)

MOVING = (
    Prompt,
    Continue,
    Answer,
    Cancel,
    Resume,
    FinishCall,
    ReleasePrompts,
)
"""Requests that let a session move: when nobody drives it, it is driven for them."""

ALONE = (
    Rename,
    Label,
    Navigate,
    UndoCompaction,
    RevokePermission,
    TakeBack,
    Keys,
    Resize,
)
"""Requests that need no model and no extension: when nobody drives the session, the log is enough."""

OF_A_RUN = (
    Steer,
    Answer,
    Cancel,
    Pause,
    Resume,
    FinishCall,
)
"""Requests that are refused where no run is open, which takes no more than the log."""
