"""The colours of the terminal: themes that come along, those of people, and which of them is shown."""
