"""The checks: plain functions of a subject, by what they are about."""
