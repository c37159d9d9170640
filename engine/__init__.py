"""What programs need around the lessons: data, runs, training, translating, exports."""
