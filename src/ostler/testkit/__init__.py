"""Tools for testing agents, tools, extensions and stores; Ostler's own tests use them.

| I want to… | use |
|---|---|
| script the model's answers | `ScriptedModel`, `Turn`, `Call` |
| test against a vendor's HTTP API | `ostler.testkit.vendors.FakeVendor` |
| turn a recorded session into a test | `assert_replays`, `replay_recording` |
| call a single tool | `ostler.testkit.fakes.FakeToolContext` |
| test an extension | `ostler.testkit.extensions.ExtensionTest`, `ostler.testkit.front_end.FakeFrontEnd` |
| check a log for consistency | `violations`, `broken_invariants`, `INVARIANTS` |
| check that a session and its children agree | `tree_violations`, `TREE_INVARIANTS` |
| check that after every test | `watched_sessions` |
| check my own store against the contract | `ostler.testkit.store_conformance.StoreConformance` |
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
