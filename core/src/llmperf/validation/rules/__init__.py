"""The semantic rules, by subject. Each is a predicate that yields what breaks it."""
