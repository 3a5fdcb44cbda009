"""The reference for a first paint and for an echo: a prompt of prompt_toolkit, and nothing else."""

from __future__ import annotations


def main() -> None:
    from prompt_toolkit import PromptSession

    PromptSession[str]().prompt("> ")
