"""What Ostler is tested with, for those who build on it.

| I want to… | use |
|---|---|
| script what the model answers | `ScriptedModel`, `Turn`, `Call` |
| test against a vendor's wire, over HTTP | `ostler.testkit.vendors.FakeVendor` |
| make a recorded session a test | `assert_replays`, `replayed` |
| call a tool by itself | `ostler.testkit.fakes.FakeToolContext` |
| test an extension | `ostler.testkit.extensions.ExtensionTest`, `ostler.testkit.front_end.FakeFrontEnd` |
| check that a log is whole | `violations`, `broken`, `INVARIANTS` |
| check that a session and its children agree | `tree_violations`, `TREE_INVARIANTS` |
| check it after every test | `watched_sessions` |
| check that my store keeps the contract | `ostler.testkit.store_conformance.StoreConformance` |
| see what crashes do to a session | `ostler.testkit.simulator.simulate` |
"""

from ostler.models.scripted import Call as Call
from ostler.models.scripted import ScriptedModel as ScriptedModel
from ostler.models.scripted import Turn as Turn
from ostler.store.invariants import INVARIANTS as INVARIANTS
from ostler.store.invariants import TREE_INVARIANTS as TREE_INVARIANTS
from ostler.store.invariants import broken_invariants as broken_invariants
from ostler.store.invariants import broken_tree_invariants as broken_tree_invariants
from ostler.store.invariants import tree_violations as tree_violations
from ostler.store.invariants import violations as violations
from ostler.testkit.checks import assert_replays as assert_replays
from ostler.testkit.checks import replay_recording as replay_recording
from ostler.testkit.checks import watched_sessions as watched_sessions

__all__ = [
    "INVARIANTS",
    "TREE_INVARIANTS",
    "Call",
    "ScriptedModel",
    "Turn",
    "assert_replays",
    "broken_invariants",
    "broken_tree_invariants",
    "replay_recording",
    "tree_violations",
    "violations",
    "watched_sessions",
]
