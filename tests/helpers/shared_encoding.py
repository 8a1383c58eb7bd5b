"""What tests of encoding share with others."""

FIRST_POSITION = {"roberta": 2, "mpnet": 2}
