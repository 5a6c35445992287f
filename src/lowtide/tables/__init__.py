"""Tables: encoding, hiding, attacking and showing them."""
