"""What the tests' model works on: a small program with a mistake in it, and the way out."""

from __future__ import annotations

from pathlib import Path

PROMPT = "The longest word comes out wrong when two are equally long. Mend it, and show me that it works."
PROGRAM = '''def longest(words):
    """The longest of them; the first, if there are several."""
    best = ""
    for word in words:
        if len(word) >= len(best):
            best = word
    return best
'''
CHECK = """from longest import longest

assert longest([]) == ""
assert longest(["hay", "oats"]) == "oats"
assert longest(["mare", "foal"]) == "mare"
print("3 checks passed")
"""
EDIT = {
    "path": "longest.py",
    "edits": [
        {
            "old_text": "        if len(word) >= len(best):\n            best = word\n    return best\n",
            "new_text": "        if len(word) > len(best):\n            best = word\n    return best\n",
        }
    ],
}
COMMAND = "python3 -B check.py"
ANSWER = """## The first of equals wins

The comparison took **every** word that was as long as the best so far, so the *last* one stayed:

```python
for word in words:
    if len(word) > len(best):
        best = word
```

| words | before | now |
|---|---|---|
| `mare`, `foal` | foal | mare |
| `hay`, `oats` | oats | oats |

- [x] `longest.py` is mended
- [x] the checks pass
"""


def lay_out(folder: Path) -> None:
    (folder / "longest.py").write_text(PROGRAM)
    (folder / "check.py").write_text(CHECK)
