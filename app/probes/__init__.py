"""What this machine tells: idle, games, heat, power, network, load. No probe decides anything."""
