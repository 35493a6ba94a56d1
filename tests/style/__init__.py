"""Rules that are executed: budgets, banned names, contracts, documents; and `make map`."""
