"""Agents of other vendors that speak a protocol: no screen is read, and people answer what they ask."""

from ostler.terminals.structured.driver import StructuredAgent as StructuredAgent
from ostler.terminals.structured.session import StructuredSession as StructuredSession
from ostler.terminals.structured.starting import restart_structured_session as restart_structured_session
from ostler.terminals.structured.starting import start_structured_session as start_structured_session
