"""The pages of a server for people: a catalogue, budgets, releases, and the custodian's desk.

They are rendered in the web process from what the API says, load nothing from elsewhere, and need
no script. Nothing on them edits what was spent.
"""
