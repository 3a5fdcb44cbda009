"""Summarises a long session without a model: the prompts, and the tools that were called.

    ostler -e examples/extensions/custom_compaction.py -p "…"

If the user compacts with instructions, the model writes the summary.
"""

from ostler import messages
from ostler.extensions import ExtensionAPI, PlannedCompaction, Summary

LONGEST = 200


def setup(ostler: ExtensionAPI) -> None:
    @ostler.before_compact
    def summarise(planned: PlannedCompaction) -> Summary | None:
        if planned.instructions:
            return None
        prompts = [messages.text_of(one.content)[:LONGEST] for one in planned.messages if one.role == "user"]
        calls = [call for one in planned.messages for call in one.calls]
        lines = ["So far the user asked for:", *(f"- {text}" for text in prompts)]
        lines += [
            f"{len(calls)} tools were called: {', '.join(sorted({call.name for call in calls})) or 'none'}."
        ]
        return Summary("\n".join(lines))
