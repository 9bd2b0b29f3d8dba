"""What the desktop of a session tells: windows, D-Bus services. No probe decides anything."""
