"""Transformations of single records (SMTs), and predicates that say which records they are for."""
