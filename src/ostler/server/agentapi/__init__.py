"""The API of coder/agentapi: its clients work unchanged with an agent that Ostler drives.

Intended differences: reads and keys never wait for a message that is being sent; streams have a comment every
fifteen seconds; events never exceed what clients can read, so a very long message comes without its middle; a
page that does not exist is a 404; the size of an upload is checked while it arrives.
"""
