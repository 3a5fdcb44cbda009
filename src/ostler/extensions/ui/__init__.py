"""The user interface of extensions: `context.ui`, and the front ends' side of it."""
