"""Ways from leave-one-out scores and labels to one curve, compared on real rows."""
