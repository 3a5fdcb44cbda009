"""Extensions: what a user drops in to change the agent, in Python or in any language."""
