"""Reading and writing files: JSON, TOML, the cache folder, withheld secrets."""
