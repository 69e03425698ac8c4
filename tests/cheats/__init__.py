"""Every known way to forge a result, each as a test, with the level of verification that catches it."""
