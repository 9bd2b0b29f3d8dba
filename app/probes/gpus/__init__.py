"""What graphics cards tell, by vendor, and who uses them. No probe decides anything."""
