"""Results and their folders: written whole or not at all, with a manifest, digests and records of what a run owns."""
