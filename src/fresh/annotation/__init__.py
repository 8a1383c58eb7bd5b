"""To annotation tools and back, one file a tool."""
