"""Asks before commands that delete, overwrite or publish something.

    ostler -e examples/extensions/permission_gate.py -p "clean up the build folder"

It is a guard: if it fails or hangs, the call is refused.
"""

import re

from ostler import Question
from ostler.extensions import Ask, ExtensionAPI, PlannedCall, Refuse

DANGEROUS = re.compile(r"\brm\s+-\w*[rf]|\bgit\s+push\b|\bgit\s+reset\s+--hard\b|\bsudo\b|\bmkfs|\bdd\s+if=")
NEVER = re.compile(r"\brm\s+-\w*r\w*\s+(--\s+)?(/|~|\$HOME)\s*$")


def setup(ostler: ExtensionAPI) -> None:
    @ostler.before_tool
    def gate(call: PlannedCall) -> Ask | Refuse | None:
        if call.kind != "execute":
            return None
        command = str(call.arguments.get("command", ""))
        if NEVER.search(command):
            return Refuse("This would delete everything, which is never allowed.")
        if match := DANGEROUS.search(command):
            question = Question(
                f"Run a command with `{match.group().strip()}`?",
                kind="permission",
                details={"command": command},
            )
            return Ask(question)
        return None
