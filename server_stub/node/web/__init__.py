"""The lab node's pages for researchers: rendered here, readable without JavaScript."""
