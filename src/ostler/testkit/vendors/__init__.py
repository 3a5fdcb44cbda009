"""Fake vendors: servers on loopback that implement the vendors' APIs and answer from a script.

    async with FakeVendor([turn("Hello ", "world"), turn(call("read", {"path": "a.txt"}))]) as vendor:
        model = make_model("anthropic/claude-x", base_url=vendor.anthropic_url)

For other processes: `python -m ostler.testkit.vendors --wire chat --script FILE.json --port 0`.
"""

from ostler.testkit.vendors.script import Answer as Answer
from ostler.testkit.vendors.script import Call as Call
from ostler.testkit.vendors.script import Cite as Cite
from ostler.testkit.vendors.script import Refusal as Refusal
from ostler.testkit.vendors.script import Say as Say
from ostler.testkit.vendors.script import Script as Script
from ostler.testkit.vendors.script import Think as Think
from ostler.testkit.vendors.script import Trouble as Trouble
from ostler.testkit.vendors.script import Turn as Turn
from ostler.testkit.vendors.script import call as call
from ostler.testkit.vendors.script import read_script as read_script
from ostler.testkit.vendors.script import say as say
from ostler.testkit.vendors.script import turn as turn
from ostler.testkit.vendors.server import FakeVendor as FakeVendor
from ostler.testkit.vendors.server import Received as Received
