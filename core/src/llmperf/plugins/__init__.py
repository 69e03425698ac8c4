"""Plugins: discovery by metadata, loading, and naming the plugin at fault."""
