"""Certificates: what an answer was made from, in lines that cannot be changed unseen."""
