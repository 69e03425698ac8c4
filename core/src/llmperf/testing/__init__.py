"""For the tests of plugin authors."""
