"""How well the angle itself is found: two classes (`designs`), three and more (`multiclass`)."""
