"""Worker groups through the public client, the wire and the command line."""
