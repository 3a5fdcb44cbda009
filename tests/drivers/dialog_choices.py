"""What the agent in `dialog_agent.py` lets one choose, by vendor."""

from __future__ import annotations

CHOICES = {
    "claude": ("Yes", "Yes, and always allow it in this project", "No"),
    "codex": ("Yes, proceed (y)", "Yes, and don't ask again (p)", "No, and tell Codex what to do (esc)"),
    "gemini": ("Allow once", "Allow for this session", "No, suggest changes (esc)"),
    "cursor": ("Run (y) (enter)", "Reject (esc or p)", "Auto-run all commands (shift+tab)"),
    "opencode": ("Allow once", "Allow always", "Reject"),
    "aider": ("Yes", "No", "All"),
    "amazonq": ("y", "n", "t"),
}
REFUSALS = ("No", "Reject", "n")
