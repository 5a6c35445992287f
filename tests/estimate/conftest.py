"""One thread per process: the suite runs on both cores already."""

import torch

torch.set_num_threads(1)
