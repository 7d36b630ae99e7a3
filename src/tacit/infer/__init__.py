"""Pure functions of arrays and random keys; nothing here knows a releaser or a file."""
