"""The launcher `kubernetes` of llmperf: runs in Kubernetes, as a Kubeflow TrainJob or a JobSet."""
