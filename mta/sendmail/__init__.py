"""The sendmail(8) interface: a program beside the daemon that hands a message over by SMTP, as any client does."""
