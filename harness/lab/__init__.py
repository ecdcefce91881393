"""Runs of models on units, and the directories they leave behind."""
