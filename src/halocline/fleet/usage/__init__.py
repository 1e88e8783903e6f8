"""Who uses which table: members that speak, those declared, and those that only left a trace in a table's history."""
