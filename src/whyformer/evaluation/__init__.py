"""Methods measured on data: units of work that can be resumed, tables, and a report."""
