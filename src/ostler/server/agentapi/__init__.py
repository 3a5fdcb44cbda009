"""The wire of coder/agentapi: its clients can talk to an agent that Ostler drives, without a change.

Where it differs, on purpose: reads and keys are never held up by a message that is on its way; streams have
a comment every fifteen seconds; an event is never larger than its readers take, so a very long message is
shown without its middle there; a page that does not exist is a 404; an upload is measured while it comes.
"""
