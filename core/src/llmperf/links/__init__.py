"""The connection between the controller and the node programs: lines of JSON over standard input and output."""
