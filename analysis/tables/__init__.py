"""Tables: each is built once and rendered as Markdown, LaTeX, CSV and HTML."""
