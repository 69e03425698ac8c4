"""Engine `checkout`: a user's Megatron-DeepSpeed checkout, driven as it is and watched from outside."""
