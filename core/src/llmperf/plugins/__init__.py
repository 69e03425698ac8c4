"""Plugins: discovery by metadata, loading, calling hooks, and errors that name the plugin responsible."""
