"""What else may be asked, a file each: what one unit can change, and what is made of its rows."""
