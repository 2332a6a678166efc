"""Work on journals outside the service: verify, export, back up, erase, judge another policy."""
