"""Extensions in any language: a process that speaks JSON lines (see docs/extension-protocol.md)."""
