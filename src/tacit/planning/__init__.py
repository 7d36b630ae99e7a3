"""What a fit will cost and how accurate it will be, before any data are opened."""
