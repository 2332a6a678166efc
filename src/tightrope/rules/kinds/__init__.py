"""The kinds of rule that come with Tightrope, one per file. A new file here is found by the name that it registers."""
