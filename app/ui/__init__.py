"""The window and the tray: a thin view over the control socket. Decides nothing about lending."""
