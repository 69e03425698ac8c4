"""NVIDIA GPUs: probed through NVML, driven through torch.cuda."""
