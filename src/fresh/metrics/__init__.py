"""Accuracy, calibration, agreement with people, faithfulness; intervals and tests."""
