"""How figures are shown to people: by the client, by commands and by the node's pages alike."""
