"""The coordinator's pages: rendered here, readable without JavaScript, in four languages."""
