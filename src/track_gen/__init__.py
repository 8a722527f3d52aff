"""Thousands of closed race tracks per call, one per RL environment."""
