"""Reports, tables and pages."""
