"""What is done with journals beside the service: verify, export, back up, erase, judge another policy."""
