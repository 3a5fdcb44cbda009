"""Abbreviates prompts: `?word` asks for an explanation, `fix!` stands for a longer prompt, and the extension
answers `ping` itself.

ostler -e examples/extensions/input_transformer.py -p "?monad"
"""

from ostler.extensions import ExtensionAPI, Handled, InputDraft

SHORT = {
    "fix!": "Run the tests, read the first failure, and fix its cause. Repeat until they pass.",
    "tidy!": "Simplify the last commit without changing its behaviour.",
}


def setup(ostler: ExtensionAPI) -> None:
    @ostler.input
    def expand(draft: InputDraft) -> InputDraft | Handled | None:
        text = draft.text.strip()
        if text == "ping":
            return Handled("pong")
        if text in SHORT:
            return draft.with_text(SHORT[text])
        if text.startswith("?") and len(text) > 1:
            return draft.with_text(f"Explain {text[1:].strip()!r} in five sentences, with one example.")
        return None
