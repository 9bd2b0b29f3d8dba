"""Who computes a job's tasks: volunteers (`grid`) or the lab's own engine (`local`)."""
