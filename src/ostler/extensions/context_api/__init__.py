"""The parts of the context: history, models, tools, skills, templates, subagents."""
