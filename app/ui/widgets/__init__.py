"""Parts that pages are made of. They show and ask; they know no agent."""
