"""Tier 1: counts and moments, a file each. What one unit can move, and what is added up."""
