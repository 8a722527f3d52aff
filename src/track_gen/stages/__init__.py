"""Stages of the pipeline, one kernel module each; they never import a generator."""
