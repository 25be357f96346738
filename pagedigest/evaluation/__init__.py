"""Measuring observation methods: recorded steps, replay, statistics, reports."""
