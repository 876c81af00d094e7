"""Measured claims. Each benchmark prints a table and writes JSON and a picture where asked."""
