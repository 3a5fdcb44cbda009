"""A conversation in a file, which another process can continue, also after a crash."""

import tempfile
from pathlib import Path

from ostler import Agent

store = Path(tempfile.mkdtemp()) / "conversations.db"

first = Agent(store=store)
first.run_sync("My name is Ada.")
session = first.session
del first

second = Agent(store=store, session=session)
print(second.run_sync("What is my name?").text)
print(f"{len(second.messages)} messages, {second.usage.total_tokens} tokens in {session[:4]}…")
