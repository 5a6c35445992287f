"""What a release is made with: the Obfuscator, budgets, certificates, the card, keyed noise."""
