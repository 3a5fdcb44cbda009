"""Sums a long session up without a model: what was asked, and which tools were called.

    ostler -e examples/extensions/custom_compaction.py -p "…"

A compaction that somebody asked for with instructions is left to the model.
"""

from ostler import messages
from ostler.extensions import ExtensionAPI, PlannedCompaction, Summary

LONGEST = 200


def setup(ostler: ExtensionAPI) -> None:
    @ostler.before_compact
    def sum_up(planned: PlannedCompaction) -> Summary | None:
        if planned.instructions:
            return None
        asked = [messages.text_of(one.content)[:LONGEST] for one in planned.messages if one.role == "user"]
        calls = [call for one in planned.messages for call in one.calls]
        lines = ["So far the person asked for:", *(f"- {text}" for text in asked)]
        lines += [
            f"{len(calls)} tools were called: {', '.join(sorted({call.name for call in calls})) or 'none'}."
        ]
        return Summary("\n".join(lines))
