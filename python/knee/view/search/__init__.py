"""The page and the pictures of a search."""
