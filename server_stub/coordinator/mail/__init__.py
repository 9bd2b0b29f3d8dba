"""Letters to people: the table of those that wait, and the process that hands them to SMTP."""
