"""Markdown and HTML pages: complete, and safe for any content."""

from __future__ import annotations

import re
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ostler.history.export import clean, markdown_page, transcript
from ostler.history.export_html import PICTURES, html_page
from ostler.schema import events
from ostler.schema.errors import Failure
from ostler.schema.facts import Fact
from ostler.schema.messages import BlobRef, File, Image, Reasoning, Text
from ostler.schema.outcomes import Display, Question
from ostler.schema.usage import Usage
from ostler.store.rules import summary_of
from ostler.testkit.vendors import call, turn
from tests.support.command import Ostler, use
from tests.support.fixtures import Serve
from tests.support.stored import facts_of

PIXEL = b64encode(b"\x89PNG not really").decode()
HOSTILE = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "</pre><script>alert(1)</script>",
            '"><img src=x onerror=alert(1)>',
            "<!-- ",
            "]]></style><style>",
            "&lt;script&gt;",
            "\x00\x1b[31m\u202eevil",
            "</title></head><body onload=alert(1)>",
            "```\n# not ours\n<details open>",
            "\r# not ours\r\n\r\n## You (#3)",
            "> quoted\n\n</details>\n\n# not ours",
            "javascript:alert(1)",
            "`````\n~~~~\n- [x](javascript:x)",
            "<pre>\n\n<script>\n\n# not ours",
            "| a | b |\n|---|---|",
        ]
    ),
)


def session_of(text: str) -> list[Fact]:
    """One where everything that can hold words holds these."""
    return facts_of(
        events.SessionRenamed(text),
        events.UserMessage((Text(text), Image(text, text), File(text, text), Image("image/png", PIXEL))),
        events.ModelCalled("msg_1", text, "d"),
        events.UsageReported("msg_1", text, Usage(7, 3, cost=0.5), Usage(7, 3, cost=0.5)),
        events.AssistantMessage("msg_1", (Reasoning(text), Text(text)), "tool_calls"),
        events.ToolCalled("call_1", text, {text: text}, 1),
        events.QuestionAsked("q_1", Question(text)),
        events.QuestionAnswered("q_1", "answered", text),
        events.ToolResultFact(
            "call_1",
            text,
            (Text(text),),
            "tool_failed",
            details={"diff": text},
            summary=text,
            output=BlobRef("out", 5),
        ),
        events.TodoUpdated((events.TodoItem("1", text),)),
        events.Compacted(text, (), 0),
        events.BranchCollapsed(text, 0),
        events.ModelFailed("msg_1", Failure("server_failed", text), rescue=text),
        events.ChildStarted("call_1", "ses_2", text, text),
        events.RunEnded("failed", text),
        b'{"type":"new_entry"}',
    )


class ParsedPage(HTMLParser):
    """The elements, attributes and texts of a page as a browser's parser finds them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, set[str]] = {}
        self.texts: list[str] = []
        self.comments: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")
        if tag == "pre":
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "pre" in self.open:
            self.texts[-1] += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def parse_page(page: str) -> ParsedPage:
    parser = ParsedPage()
    parser.feed(page)
    parser.close()
    return parser


PLAIN = parse_page("".join(html_page(summary_of(session_of("word")), session_of("word"))))


@given(HOSTILE)
def test_content_of_a_session_is_escaped_in_html(text: str) -> None:
    facts = session_of(text)
    page = "".join(html_page(summary_of(facts), facts))
    page.encode()
    page_texts = parse_page(page)
    assert set(page_texts.tags) <= set(PLAIN.tags) and page_texts.comments == []
    assert page_texts.attributes.keys() <= PLAIN.attributes.keys()
    assert page_texts.attributes["src"] == {f"data:image/png;base64,{PIXEL}"}
    assert page_texts.attributes["class"] <= PLAIN.attributes["class"]
    if text.strip():
        assert page_texts.tags == PLAIN.tags
        assert [one for one in page_texts.texts if one.removeprefix("\n") == clean(text.strip("\n"))]


@given(HOSTILE)
def test_content_of_a_session_is_quoted_in_markdown(text: str) -> None:
    facts = session_of(text)
    page = "".join(markdown_page(summary_of(facts), facts))
    page.encode()
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    outside = [token for token in tokens if token.level == 0]
    headings = [
        tokens[place + 1].content
        for place, token in enumerate(tokens)
        if token in outside and token.type == "heading_open"
    ]
    titles = ["You (#3)", "Assistant (#6)", "To do (#11)", "Summary (#12)", "Summary (#13)"]
    assert [one for one in headings[1:] if one in titles] == [one for one in titles if one in headings[1:]]
    assert set(headings[1:]) <= {*titles, "Usage"} and headings[-1] == "Usage"
    blocks = [token.content for token in outside if token.type == "html_block"]
    assert all(re.fullmatch(r"<details>\n<summary>[^<>\n]*</summary>\n|</details>\n", one) for one in blocks)
    assert blocks.count("</details>\n") == len(blocks) / 2
    assert [token.type for token in tokens].count("table_open") == 1 or text.startswith("|")


def test_only_known_image_types_are_embedded_and_nothing_is_fetched() -> None:
    pictures = [Image(kind, PIXEL) for kind in PICTURES]
    others = [
        Image("image/svg+xml", PIXEL),
        Image("image/png", "no base64!"),
        Image("image/png", "", "https://x/y.png"),
    ]
    facts = facts_of(events.UserMessage((*pictures, *others)))
    page = "".join(html_page(summary_of(facts), facts))
    assert re.findall(r'src="data:([^;]*);', page) == list(PICTURES)
    assert "(image/svg+xml )" in page and "(image/png https://x/y.png)" in page
    assert "default-src 'none'" in page and "<script" not in page and "href" not in page
    assert "prefers-color-scheme: dark" in page


def test_a_page_has_the_path_without_withheld_answers() -> None:
    facts = facts_of(
        events.UserMessage((Text("the root"),)),
        events.UserMessage((Text("a dead end"),)),
        events.LeafMoved(2),
        events.UserMessage((Text("a reminder"),), source="reminder", hidden=True),
        events.AssistantMessage("msg_1", (Text("raw"),), "end", shown=(Text("polished"),)),
        events.AssistantMessage("msg_2", (Text("withheld"),), "end", suppressed=True),
    )
    for page in (html_page(summary_of(facts), facts), markdown_page(summary_of(facts), facts)):
        text = "".join(page)
        assert "the root" in text and "polished" in text and "1 entries on other branches" in text
        assert not [word for word in ("a dead end", "a reminder", "raw", "withheld<") if f">{word}" in text]
        assert "a dead end" not in text and "a reminder" not in text


def test_a_page_has_the_sessions_and_usage_of_children() -> None:
    used = events.Totals(steps=2, model_calls=2, usage=Usage(70, 35, cost=0.25))
    facts = facts_of(
        events.UserMessage((Text("review it"),)),
        events.ToolCalled(
            "call_1",
            "delegate",
            {"agent": "critic", "task": "look"},
            1,
            display=Display(title="{agent} {task}"),
        ),
        events.ChildStarted("call_1", "ses_2", "critic", "look"),
        events.ChildUsed("call_1", "ses_3", Usage(5, 5, cost=0.5)),
        events.ChildEnded("call_1", "ses_2", "completed", own=used, children=used),
        events.ToolResultFact("call_1", "delegate", (Text("fine"),)),
    )
    for page in (html_page(summary_of(facts), facts), markdown_page(summary_of(facts), facts)):
        text = "".join(page)
        assert "delegate: critic look: ok" in text and "4 model calls, 220 tokens, $1.00" in text
        assert "critic works on it in session ses" in text
    rows = list(transcript(summary_of(facts), facts))
    assert "#3 delegate: critic look" in rows and "  critic: session ses_2" in rows


def test_a_session_is_exported_as_a_readable_page(ostler: Ostler, serve: Serve) -> None:
    (ostler.work / "a.txt").write_text("<b>text</b>\n")
    vendor = serve(turn("I look.", call("read", {"path": "a.txt"})), turn("It is **bold**."))
    ostler("-p", *use(vendor), "look at <a.txt>")
    (session,) = [one["id"] for one in ostler("sessions", "--json").lines]
    named = ostler("sessions", "export", session, "page.html")
    assert named.out == "page.html\n"
    page = (ostler.work / "page.html").read_text()
    assert "look at &lt;a.txt&gt;" in page and "&lt;b&gt;text&lt;/b&gt;" in page
    assert "<summary" in page and "read: a.txt: ok" in page and "<td>model calls</td><td>2</td>" in page
    assert ostler("sessions", "export", session, "--format", "html").out == page
    (file,) = ostler("sessions", "export", session, ".", "--format", "markdown").out.splitlines()
    assert re.search(rf"{session[:14]}-look-at-a-txt\.md$", file)
    markdown = (ostler.work / Path(file).name).read_text()
    assert "> It is **bold**.\n" in markdown and "| model calls | 2 |" in markdown
    assert markdown.startswith("# look at \\<a.txt\\>\n")
    assert ostler("sessions", "export", session, "x.md").out == "x.md\n"
    assert (ostler.work / "x.md").read_text() == markdown
    portable = ostler("sessions", "export", session, "page").out
    assert portable == "page.jsonl\n"
