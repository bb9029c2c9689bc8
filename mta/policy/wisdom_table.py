"""What receivers say and mean by it: the data of `wisdom`.

Rules: an entry is a regular expression for a reply's code and text, in lower case and without addresses and enhanced code;
none has a repetition without a bound, so that hostile text can't make one slow. Phrases are such as only one kind of refusal
is put in; a single word like "spam" or "policy" says nothing. The order is that of trust: what stands first is believed
against what follows. Statuses are subject and detail of an enhanced code (RFC 3463, RFC 7372, RFC 7505; those from 7.500 on
are Exchange Online's, 7.25 to 7.29 as Gmail has them too).
"""

from collections.abc import Mapping, Sequence

from mta.model.category import Category

TELLING: Mapping[str, Category] = {
    "1.7": Category.POLICY,
    "1.8": Category.POLICY,
    "7.20": Category.POLICY,
    "7.21": Category.POLICY,
    "7.22": Category.POLICY,
    "7.23": Category.POLICY,
    "7.24": Category.POLICY,
    "7.25": Category.REPUTATION,
    "7.26": Category.POLICY,
    "7.27": Category.POLICY,
    "7.28": Category.RATE_LIMITED,
    "7.29": Category.TLS,
    "7.30": Category.TLS,
    "7.66": Category.TLS,
    "7.500": Category.RATE_LIMITED,
    "7.501": Category.REPUTATION,
    "7.502": Category.REPUTATION,
    "7.503": Category.REPUTATION,
    "7.509": Category.POLICY,
    "7.511": Category.REPUTATION,
    "7.515": Category.POLICY,
    "7.650": Category.REPUTATION,
    "7.651": Category.REPUTATION,
    "7.652": Category.REPUTATION,
    "7.708": Category.REPUTATION,
    "7.750": Category.POLICY,
    **{f"7.{number}": Category.REPUTATION for number in range(606, 650)},
}
"""Statuses that nobody gives by mistake: stronger than any wording."""

PHRASES: Sequence[tuple[Category, Sequence[str]]] = (
    (
        Category.GREYLISTING,
        (
            r"gr[ae]y[- ]?list",
            r"^\d{3} (?:<>: )?try again later\.?$",  # rspamd
            r"^\d{3} temporary failure, please try again later\.?$",  # spamd of OpenBSD
            r"internal resources? (?:is |are )?temporarily unavailable.{0,60}#451",  # Mimecast
            r"(?:first|initial) (?:delivery )?attempt.{0,40}(?:later|again|retry)",
            r"not yet authorized to deliver mail from",
        ),
    ),
    (
        Category.TLS,
        (
            r"must issue (?:a )?starttls",
            r"(?:starttls|tls|encryption|ssl) (?:is |connection )?(?:required|mandatory|needed)",
            r"(?:requires?|use) (?:the use of )?(?:starttls|tls|encryption|an encrypted)",
            r"issue starttls",
            r"tls (?:version )?1\.[01].{0,30}not supported",
            r"tls not available",
        ),
    ),
    (
        Category.TOO_MANY_CONNECTIONS,
        (
            r"too many (?:concurrent |simultaneous |open |parallel |smtp )?(?:smtp )?(?:connections|sessions|connects)",
            r"maximum number of (?:concurrent |simultaneous )?(?:server )?(?:connections|sessions)",
            r"(?:connection|session) limit (?:exceeded|reached)",
            r"(?:concurrent|simultaneous) (?:smtp )?(?:connections|sessions).{0,30}(?:limit|exceed|reached|allowed)",
            r"(?:exceed|limit).{0,40}(?:concurrent|simultaneous) (?:smtp )?(?:connections|sessions)",
            r"trop de connexions",
            r"ofr\w{0,4}_103",  # Orange
        ),
    ),
    (
        Category.POLICY,
        (
            r"\b(?:dmarc|spf|dkim)\b",
            r"sender policy framework",
            r"unauthenticated (?:e-?mail|sender)",
            r"sender (?:is )?(?:not )?unauthenticated",
            r"sender (?:address )?(?:verify|verification)(?: callout)? (?:failed|failure)",
            r"(?:could not|cannot) (?:complete )?(?:sender )?verif(?:y|ication)",
            r"sendernotauthenticated",
            r"sender address rejected: (?:user unknown|undeliverable|unverified|domain)",  # Postfix
            r"sender verif(?:y|ication) fail|call(?:back|out) verification fail",
            r"(?:unknown|invalid|bad|non-?existent) (?:envelope )?sender\b",
            r"sender(?:'s)?(?: address| mailbox| user| domain)?(?::| is| does)? "
            r"(?:unknown|invalid|not exist|not found|mailbox not found|unrout(?:e)?able|user unknown|no such)",
        ),
    ),
    (
        Category.REPUTATION,
        (
            r"reputation",
            r"spamhaus|spamcop|barracuda(?:central|networks\.com/reputation)|\bsorbs\b|uceprotect|senderbase|mailspike|abuseat",
            r"(?:proofpoint|cloudmark)\.com/(?:dnsbl|[a-z/-]{0,30}reset)",
            r"\b[a-z]{0,4}(?:dnsbl|rbl|dnsrbl)\b",
            r"black[- ]?list|block[- ]?list|\bdeny ?list",
            r"\bs31[45]0\b",  # Outlook.com
            r"\[?\bts[ds]?0\d\b\]?",  # Yahoo
            r"\[bl2\d\]",
            r"\bbl0000\d\d\b",  # Comcast
            r"ofr\w{0,4}_(?:104|108|506)",
            r"tosa@rx|ask your postmaster for help",  # T-Online
            r"banned send(?:ing ip|er)",
            r"(?:too many|excessive) (?:spams?|complaints)",
            r"user complaints",
            r"connections? (?:will )?not (?:be )?accepted from",
            r"(?:your|sending|client|this) (?:ip|host|ip address|server)\b.{0,40}(?:blocked|banned|listed|denied|refused)",
            r"(?:ip|host|address) (?:address )?\[?[0-9a-f.:]{3,45}\]? (?:is |was |has been )?"
            r"(?:blocked|banned|listed|on our)",
            r"blocked by (?:our )?(?:local )?(?:rbl|reputation|blocklist)",
            r"unsolicited mail originating from your ip",
            r"(?:blocked|refused|rejected) (?:for|due to) (?:spam|abuse)|bad ip|permanently deferred",
            r"\b(?:ou|sc|dy)-00\d\b",  # Outlook.com, as it was
            r"excessive (?:user ?id |user )?unknown|(?:dial-?up|dynamic)[ -](?:or|ip)",
            r"\bptr\b|reverse[- ](?:dns|hostname|lookup|address)|\brdns\b|no reverse",
            r"cannot find your (?:reverse )?(?:hostname|host name)",
            r"(?:generic|dynamic|dial-?up|residential) (?:ip|address|host|hostname|rdns|range|pool)",
            r"helo (?:command )?(?:rejected|name|is)",
            r"helo/ehlo.{0,40}(?:rejected|invalid|mismatch)",
        ),
    ),
    (
        Category.RATE_LIMITED,
        (
            r"rate[- ]?limit|ratelimit|rate (?:is |was )?(?:exceed|too high)",
            r"throttl",
            r"(?:sending|sent|send) (?:quota|limit)|(?:daily|hourly|message) (?:\w{1,12} ){0,2}(?:quota|limit) exceed",
            r"exceeded the max(?:imum)? (?:number of )?(?:e-?mails|messages|defers)",
            r"too many (?:e-?mails|messages|mails|recipients|rcpts?|requests)(?! on the server| in )",
            r"limit of (?:e-?mails|messages|mails) per",
            r"too much mail",
            r"receiving mail (?:at a rate|too quickly)",
            r"frequency limited",  # QQ
            r"(?:sending|sent|delivering) (?:too fast|too much|messages too)",
            r"unusual (?:rate|amount|volume)|unexpected volume",
            r"slow down",
            r"server busy.{0,60}from \[",
        ),
    ),
    (
        Category.MAILBOX_FULL,
        (
            r"(?:mailbox|inbox|mail box|account|user|recipient|storage|folder)(?:'s)?(?: \w{1,12})?(?: is)? (?:too )?full\b",
            r"(?:over|exceed\w{0,4}|out of|beyond)(?: \w{1,9}){0,2} (?:quota|disk quota|storage allocation|storage space)",
            r"over ?quota|quotaexceeded|quota (?:is )?(?:exceeded|full|violation)|exceeds? (?:its |the )?(?:\w{1,9} )?quota",
            r"mailbox (?:size )?limit (?:exceeded|reached)|mailbox has exceeded",
            r"not enough (?:storage )?space|insufficient (?:disk )?(?:quota|mailbox)|exhausted.{0,20}storage",
            r"quota usage exceed|mailbox exceeds|too many messages (?:on the server|in (?:the |your )?mailbox)",
        ),
    ),
    (
        Category.NO_SUCH_USER,
        (
            r"(?:no such|unknown|invalid|non-?exist(?:e|a)nt|unknown or (?:illegal|invalid))[ -]"
            r"(?:user|recipient|mailbox|address|account|person|local[- ]part|virtual|mail ?drop|customer|alias|e-?mail)",
            r"(?:user|recipient|mailbox|account|addressee|alias|address|customer)(?: is| was)? "
            r"(?:unknown|invalid|not known|not found)",
            r"(?:user|mailbox|account|recipient|address)(?: \S{1,64})?(?: that you tried to reach)? "
            r"(?:does not|doesn'?t|did not) exist",
            r"user (?:doesn'?t|does not) have an? \S{1,40} account",
            r"unknown in (?:virtual|local|relay)",
            r"unrouteable address|unroutable address",
            r"no mailbox (?:here )?by that name|no mailbox here",
            r"not (?:a valid|a known|our) (?:mailbox|user|recipient|customer)",
            r"(?:user|recipient|address)_?(?:unknown|not_?found)|not found in (?:the )?(?:ldap|directory)",
            r"no mail ?box (?:is )?available|no ?(?:body|one) (?:here )?(?:with|by|of) that",
            r"no longer (?:an employee|works|valid|on (?:this )?server)",
            r"(?:bad destination mailbox|invalid mailbox|mailbox not found|user not local|no longer at)",
            r"recipientnotfound|not found by smtp address lookup",
            r"recipient address rejected: access denied\. (?:as\(|\[)",  # Exchange Online: not in its directory
            r"^5.{0,80}requested (?:mail )?action not taken: mailbox unavailable",
        ),
    ),
    (
        Category.MAILBOX_DISABLED,
        (
            r"(?:account|mailbox|user|recipient|address)(?: that you tried to reach)?(?: is| has been| was)?"
            r"(?: temporarily| currently)? (?:disabled|inactive|suspended|deactivated|locked|closed|expired)",
            r"not (?:currently )?(?:accepting (?:mail|messages)|being accepted for this)|due to inactivity",
        ),
    ),
    (
        Category.SIZE,
        (
            r"(?:message|mail|e-?mail|size|body)(?: \w{1,9}){0,3} "
            r"(?:exceeds?|exceeded|is larger|larger than|too (?:large|big|long))",
            r"(?:max(?:imum)?|fixed) (?:allowed )?(?:message |mail )?size|size limit",
        ),
    ),
    (
        Category.CONTENT,
        (
            r"(?:likely|suspected|considered|classified|identified|looks like|suspicion of|as|is|behaviou?r) spam\b",
            r"spam (?:message|detected|content|score|rejected|mail)|dt:spm|junk ?mail|unsolicited (?:mail|message|bulk)",
            r"\bvirus|malware|phishing|infected",
            r"(?:banned|forbidden|blocked|prohibited|dangerous|executable|invalid) "
            r"(?:file|attachment|content|extension|url|link)",
            r"content (?:rejected|presents|filter|policy|not allowed)|message content",
            r"potential security issue|password[- ]protected|declared spam|unsafe content|required standards",
            r"(?:malformed|invalid|missing|duplicate|bad|multiple|syntax).{0,20}(?:header|message-id|mime)",
            r"line (?:is )?(?:too long|length)|bare (?:cr|lf|newline)|not (?:rfc ?)?(?:5322|2822|822) compliant",
        ),
    ),
    (
        Category.POLICY,
        (
            r"relay(?:ing)? (?:access )?(?:denied|not (?:permitted|allowed)|prohibited)|allowed rcpthosts",
            r"(?:unable|not permitted) to relay|(?:do|does) not relay",
            r"(?:denied|rejected|refused|blocked) by policy",
            r"authentication (?:is )?required|requires authentication|auth(?:entication)? (?:failed|credentials)",
            r"sender (?:address )?(?:is )?(?:rejected|denied|not allowed|blocked|unknown|not verified)",
            r"(?:address|identity|domain) (?:is )?not verified",
            r"recipient address rejected: access denied",
            r"(?:local|security|site|policy) (?:policy|policies|reasons?|violation)|administrative(?:ly)? prohibit",
            r"(?:sender|you|delivery)(?: is| are)? not (?:authorized|permitted|allowed)|not authori[sz]ed to send",
        ),
    ),
    (
        Category.UNAVAILABLE,
        (
            r"(?:server|system|service|resources?|mailbox|host)(?: is| are| was)?(?: currently| temporarily)? "
            r"(?:not available|unavailable|busy|overloaded|down|shutting down|closing)",
            r"insufficient (?:system )?(?:storage|resources|disk)|out of (?:memory|disk)",
            r"(?:temporary|temporarily) (?:local |server |internal |system |lookup )?"
            r"(?:problem|error|failure|deferred|rejected)",
            r"verification in progress|lookup failed|local error in processing|try (?:again )?later",
            r"too busy|load is too high|temporarily suspended",
        ),
    ),
)

TRUSTED: Mapping[str, Category] = {
    "1.1": Category.NO_SUCH_USER,
    "1.2": Category.NO_SUCH_DOMAIN,
    "1.10": Category.NO_SUCH_DOMAIN,
    "2.1": Category.MAILBOX_DISABLED,
    "2.2": Category.MAILBOX_FULL,
    "2.3": Category.SIZE,
    "3.1": Category.UNAVAILABLE,
    "3.2": Category.UNAVAILABLE,
    "3.4": Category.SIZE,
    "4.1": Category.UNAVAILABLE,
    "4.2": Category.UNAVAILABLE,
    "4.3": Category.UNAVAILABLE,
    "6.0": Category.CONTENT,
    "6.1": Category.CONTENT,
    "6.2": Category.CONTENT,
    "6.3": Category.CONTENT,
    "6.6": Category.CONTENT,
    "7.4": Category.TLS,
    "7.5": Category.TLS,
    "7.10": Category.TLS,
    "7.11": Category.TLS,
}
"""Statuses that are mostly right where no wording says otherwise."""

BY_CODE: Mapping[int, Category] = {421: Category.UNAVAILABLE, 552: Category.SIZE, 556: Category.NO_SUCH_DOMAIN}
"""Where neither says anything."""
