"""Maximum flow through layered graphs; the solver behind attention flow."""
