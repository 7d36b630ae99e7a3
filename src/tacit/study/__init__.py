"""Study files: what they say, what they cost, a template, and a look at the data for custodians."""
