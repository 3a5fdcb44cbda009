"""A theme with cool colours, and a command `/colours` that shows it.

    ostler -e examples/extensions/northern_theme.py

Missing colours come from the default theme. Each colour has a value for light and one for dark terminals.
"""

from ostler.extensions import ExtensionAPI, ExtensionContext, SessionOpened, Theme, ThemeColor

NORTHERN = Theme(
    primary=ThemeColor("#2e5a88", "#88c0d0"),
    secondary=ThemeColor("#5b4a8a", "#b48ead"),
    success=ThemeColor("#3f6b2a", "#a3be8c"),
    warning=ThemeColor("#8a6500", "#ebcb8b"),
    error=ThemeColor("#9b2f3a", "#bf616a"),
    accent=ThemeColor("#2d6f73", "#8fbcbb"),
    md_heading=ThemeColor("#2e5a88", "#81a1c1"),
)


def setup(ostler: ExtensionAPI) -> None:
    @ostler.on(SessionOpened)
    def choose(event: SessionOpened, context: ExtensionContext) -> None:
        context.ui.register_theme("northern", NORTHERN)
        context.ui.set_theme("northern")

    @ostler.command("colours", description="Show the current theme")
    def colours(arguments: str, context: ExtensionContext) -> str:
        theme = context.ui.theme()
        if not theme.name:
            return "there is no terminal with colours"
        names = ("primary", "secondary", "success", "warning", "error", "accent")
        return f"{theme.name}: " + " ".join(theme.ansi(getattr(theme, name), name) for name in names)
