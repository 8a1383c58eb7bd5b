"""Text classification that shows exactly the words an answer was made from."""
