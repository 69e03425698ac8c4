"""Published Markdown tables as `published.json`: what they say, and what in them was not understood."""
