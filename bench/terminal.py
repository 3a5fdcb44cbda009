"""Measures of the terminal face: streaming, memory, the first paint, the echo of keys, resuming."""

from __future__ import annotations

from bench.pseudo_terminal import PseudoTerminal
from bench.room import OSTLER, Room, call_module
from bench.rows import Row, interleaved, limit_row, ratio_row

DELTAS, SECONDS = 5000, 10
STEPS = 2000
KEYS = 20
BLOCKS, AT_ONCE = 10_000, 2_000
BARE_PROMPT = "\x1b[0m>"


def terminal(room: Room) -> list[Row]:
    return [*_stream(room), *_memory(room), *_paint(room), *_echo(room), *_resume(room)]


def _ours(room: Room, scenario: str, run: str, home: str, *words: str) -> PseudoTerminal:
    url = room.url(scenario, run)
    command = [OSTLER, "--model", "openai/bench", "--base-url", url, "--api-key", "k", "--yes", *words]
    return PseudoTerminal(command, room.env(home), room.work)


def _stream(room: Room) -> list[Row]:
    """The processor time that the deltas take, without what starting takes; and how far behind it is."""

    def once(side: str, scenario: str) -> list[float]:
        run = room.new_run()
        if side == "ours":
            program = _ours(room, scenario, run, "terminal", "begin")
        else:
            program = PseudoTerminal(
                [*call_module("bench.bare_tail"), room.url(scenario, run)], room.env("bare"), room.work
            )
        with program:
            seen = program.wait_for("completed")
            behind = seen / 1e6 - room.records(run)[0].last_byte
            program.type("\x04")
            program.end()
            return [program.cpu_ms, behind]

    def both(side: str) -> list[float]:
        short, long = once(side, "article-1-1"), once(side, f"article-{DELTAS}-{SECONDS}")
        return [long[0] - short[0], long[1]]

    medians = interleaved(room.rounds, ours=lambda: both("ours"), bare=lambda: both("bare"))
    ours, bare = medians["ours"], medians["bare"]
    return [
        ratio_row(f"{DELTAS:,} deltas in {SECONDS} s in the terminal, CPU", ours[0], bare[0], "ms", "≤", 1.5),
        limit_row("from the last delta to the end on the screen", ours[1], "ms", 250),
    ]


def _memory(room: Room) -> list[Row]:
    """What thousands of blocks more add, after as many as warm everything up."""
    with _ours(room, f"paragraphs-{AT_ONCE}", room.new_run(), "blocks", "begin") as program:
        program.wait_for("completed")
        before = program.resident_mib()
        for _ in range(BLOCKS // AT_ONCE - 1):
            program.type("more\r")
            program.wait_for("completed")
        after = program.resident_mib()
    return [limit_row(f"memory of the terminal after {BLOCKS:,} blocks", after, "MiB", 10, before)]


def _paint(room: Room) -> list[Row]:
    def ours() -> list[float]:
        with _ours(room, "text-1", room.new_run(), "paint") as program:
            return [(program.wait_for("openai/bench") - program.started) / 1e6]

    def bare() -> list[float]:
        with PseudoTerminal(call_module("bench.bare_prompt"), room.env("bare"), room.work) as program:
            return [(program.wait_for(BARE_PROMPT) - program.started) / 1e6]

    medians = interleaved(room.rounds * 3, ours=ours, bare=bare)
    return [ratio_row("first paint / bare prompt", medians["ours"][0], medians["bare"][0], "ms", "≤", 1.5)]


def _echo(room: Room) -> list[Row]:
    """From a key to its letter on the screen, while an answer streams."""

    def echoes(program: PseudoTerminal) -> list[float]:
        program.watch(0.5)
        times = []
        for _ in range(KEYS):
            typed = program.type("Q")
            times.append((program.wait_for("Q") - typed) / 1e6)
            program.watch(0.05)
        return [sorted(times)[KEYS // 2]]

    def streaming() -> list[float]:
        with _ours(room, f"article-{DELTAS}-{SECONDS}", room.new_run(), "terminal", "begin") as program:
            program.wait_for("answering")
            return echoes(program)

    def idle() -> list[float]:
        with PseudoTerminal(call_module("bench.bare_prompt"), room.env("bare"), room.work) as program:
            program.wait_for(BARE_PROMPT)
            return echoes(program)

    medians = interleaved(room.rounds, ours=streaming, idle=idle)
    name = "echo of a key while an answer streams / idle bare prompt"
    return [ratio_row(name, medians["ours"][0], medians["idle"][0], "ms", "≤", 3)]


def _resume(room: Room) -> list[Row]:
    room.one_shot("ours", f"calls-{STEPS}-bash", room.new_run(), "long", cwd="terminal")

    def once(home: str, *words: str) -> list[float]:
        url = room.url("text-1", room.new_run())
        command = [OSTLER, "--model", "openai/bench", "--base-url", url, "--api-key", "k", *words]
        with PseudoTerminal(command, room.env(home), room.work / "terminal") as program:
            return [(program.wait_for("openai/bench") - program.started) / 1e6]

    medians = interleaved(
        room.rounds * 5, ours=lambda: once("long", "--continue"), empty=lambda: once("paint")
    )
    name = f"first paint of a session of {STEPS:,} steps / of an empty one"
    return [ratio_row(name, medians["ours"][0], medians["empty"][0], "ms", "≤", 1.2)]
