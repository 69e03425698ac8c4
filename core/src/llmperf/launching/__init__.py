"""Starting the ranks of a plan, watching them, ending them all."""
