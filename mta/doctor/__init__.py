"""`mta doctor`: whether others will take our mail, looked at from outside as they would."""
