"""What the course needs and does not teach: a plain file for each thing, beside the lessons."""
