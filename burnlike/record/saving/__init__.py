"""Writing records: converted on the way into files, by threads, in the background, in sets."""
