"""Short texts: reading, hiding, explaining, attacking and showing them."""
