"""What calls cost: prices, budgets that hold, and the account of each step."""
