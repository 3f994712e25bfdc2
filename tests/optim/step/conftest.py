"""What of this folder is no test: importing it registers a device with torch, for all tests after it."""

collect_ignore = ["second_device.py", "on_second_device.py"]
