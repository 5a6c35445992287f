"""What Lowtide is compared with: baselines, rivals, published networks. Not part of the library."""
