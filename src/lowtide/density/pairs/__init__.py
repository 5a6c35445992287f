"""The parts of the structured critic of pairs: column maps, Gaussian copula, sparse correction, neural residual."""
