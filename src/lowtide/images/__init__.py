"""Images: reading, hiding, attacking and showing them."""
