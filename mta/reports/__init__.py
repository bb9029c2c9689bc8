"""Results not yet told become mail to senders and to the postmaster."""
