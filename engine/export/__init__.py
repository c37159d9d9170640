"""A trained run written for use elsewhere, one module a form."""
