"""A tool that asks before it runs, streams its output, and has its own renderer.

ostler -e examples/extensions/deploy_tool.py -p "deploy the shop to staging"
"""

from typing import Any, Literal

from ostler import Question, ToolContext
from ostler.extensions import ExtensionAPI

STEPS = ("build", "upload", "switch over")


def setup(ostler: ExtensionAPI) -> None:
    @ostler.tool(kind="execute", timeout=600)
    async def deploy(service: str, target: Literal["staging", "production"], context: ToolContext) -> str:
        """Deploys a service.

        Args:
            service: the name of the service
            target: the environment
        """
        if target == "production":
            await context.ask(Question(f"Deploy {service} to production?", kind="choice", choices=("yes",)))
        for step in STEPS:
            context.output(f"{step} {service}\n")
        return f"{service} runs in {target}"

    def header(arguments: dict[str, Any], width: int) -> str:
        return f"🚀 {arguments.get('service', '?')} → {arguments.get('target', '?')}"[:width]

    def body(result: str, failed: bool, width: int) -> str:
        return f"{'✗' if failed else '✓'} {result}"[:width]

    ostler.tool_renderer("deploy", title="Deploy", color="#88c0d0", header=header, body=body)

    @ostler.message_renderer("banner")
    def banner(text: str, width: int) -> str:
        line = "═" * min(width, len(text) + 4)
        return f"{line}\n  {text}\n{line}"
