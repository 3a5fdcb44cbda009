"""Measures of the terminal UI: streaming, memory, the first frame, the echo of keys, a long session."""

from __future__ import annotations

from bench.child import PseudoTerminal
from bench.environment import OPENAI, OSTLER, Environment, program
from bench.table import Row, interleaved, limit_row, ratio_row

DELTAS, SECONDS = 5000, 10
STEPS = 2000
KEYS = 20
BLOCKS, BLOCKS_PER_ANSWER = 10_000, 2_000
BARE_PROMPT = "\x1b[0m>"
FIRST_FRAME = "openai/bench"


def terminal(environment: Environment) -> list[Row]:
    return [
        *_stream(environment),
        *_memory(environment),
        *_first_frame(environment),
        *_echo(environment),
        *_long_session(environment),
    ]


def _ours(environment: Environment, scenario: str, run: str, home: str, *words: str) -> PseudoTerminal:
    url = environment.url(scenario, run)
    command = [OSTLER, *OPENAI, "--base-url", url, "--yes", *words]
    return PseudoTerminal(command, environment.variables(home), environment.work)


def _bare_prompt(environment: Environment) -> PseudoTerminal:
    return PseudoTerminal(program("bare", "prompt"), environment.variables("bare"), environment.work)


def _stream(environment: Environment) -> list[Row]:
    """The CPU time of the deltas, without that of start-up; and the delay of the last one."""

    def once(side: str, scenario: str) -> list[float]:
        run = environment.new_run()
        if side == "ours":
            child = _ours(environment, scenario, run, "terminal", "begin")
        else:
            command = [*program("bare", "tail"), environment.url(scenario, run)]
            child = PseudoTerminal(command, environment.variables("bare"), environment.work)
        with child:
            visible = child.wait_for("completed")
            delay = visible / 1e6 - environment.requests(run)[0].last_byte
            child.type("\x04")
            child.wait()
            return [child.cpu_ms, delay]

    def difference(side: str) -> list[float]:
        short, long = once(side, "article-1-1"), once(side, f"article-{DELTAS}-{SECONDS}")
        return [long[0] - short[0], long[1]]

    medians = interleaved(
        environment.rounds, ours=lambda: difference("ours"), bare=lambda: difference("bare")
    )
    ours, bare = medians["ours"], medians["bare"]
    return [
        ratio_row(f"{DELTAS:,} deltas in {SECONDS} s in the terminal, CPU", ours[0], bare[0], "ms", "≤", 1.5),
        limit_row("from the last delta to the end of the run on the screen", ours[1], "ms", 250),
    ]


def _memory(environment: Environment) -> list[Row]:
    """The memory of all blocks after the first ones, which are a warm-up."""
    scenario = f"paragraphs-{BLOCKS_PER_ANSWER}"
    with _ours(environment, scenario, environment.new_run(), "blocks", "begin") as child:
        child.wait_for("completed")
        before = child.resident_mib()
        for _ in range(BLOCKS // BLOCKS_PER_ANSWER - 1):
            child.type("more\r")
            child.wait_for("completed")
        after = child.resident_mib()
    return [limit_row(f"memory of the terminal after {BLOCKS:,} blocks", after, "MiB", 10, before)]


def _first_frame(environment: Environment) -> list[Row]:
    def ours() -> list[float]:
        with _ours(environment, "text-1", environment.new_run(), "paint") as child:
            return [(child.wait_for(FIRST_FRAME) - child.started) / 1e6]

    def bare() -> list[float]:
        with _bare_prompt(environment) as child:
            return [(child.wait_for(BARE_PROMPT) - child.started) / 1e6]

    medians = interleaved(environment.rounds * 3, ours=ours, bare=bare)
    return [ratio_row("first frame / bare prompt", medians["ours"][0], medians["bare"][0], "ms", "≤", 1.5)]


def _echo(environment: Environment) -> list[Row]:
    """From a key to its letter on the screen, while an answer streams."""

    def median_echo(child: PseudoTerminal) -> list[float]:
        child.read_for(0.5)
        times = []
        for _ in range(KEYS):
            typed = child.type("Q")
            times.append((child.wait_for("Q") - typed) / 1e6)
            child.read_for(0.05)
        return [sorted(times)[KEYS // 2]]

    def streaming() -> list[float]:
        scenario = f"article-{DELTAS}-{SECONDS}"
        with _ours(environment, scenario, environment.new_run(), "terminal", "begin") as child:
            child.wait_for("answering")
            return median_echo(child)

    def idle() -> list[float]:
        with _bare_prompt(environment) as child:
            child.wait_for(BARE_PROMPT)
            return median_echo(child)

    medians = interleaved(environment.rounds, ours=streaming, idle=idle)
    name = "echo of a key while an answer streams / idle bare prompt"
    return [ratio_row(name, medians["ours"][0], medians["idle"][0], "ms", "≤", 3)]


def _long_session(environment: Environment) -> list[Row]:
    environment.one_shot("ours", f"calls-{STEPS}-bash", environment.new_run(), "long", cwd="terminal")

    def once(home: str, *words: str) -> list[float]:
        url = environment.url("text-1", environment.new_run())
        command = [OSTLER, *OPENAI, "--base-url", url, *words]
        cwd = environment.work / "terminal"
        with PseudoTerminal(command, environment.variables(home), cwd) as child:
            return [(child.wait_for(FIRST_FRAME) - child.started) / 1e6]

    medians = interleaved(
        environment.rounds * 5, ours=lambda: once("long", "--continue"), empty=lambda: once("paint")
    )
    name = f"first frame of a session of {STEPS:,} steps / of an empty one"
    return [ratio_row(name, medians["ours"][0], medians["empty"][0], "ms", "≤", 1.2)]
