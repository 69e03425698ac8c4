"""What vendor plugins build on: peak tables, tools, visible devices, accelerators of torch."""
