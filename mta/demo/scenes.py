"""The scenes of the demo and the pretend internet they play in: data alone."""

from dataclasses import dataclass

from mta.demo.internet import Internet, MailServer, always, once


@dataclass(frozen=True, slots=True)
class Again:
    """The message handed over once more, to `recipient`, and the beginning of the daemon's `reply`; {} is its queue id."""

    opening: str
    recipient: str
    reply: str


@dataclass(frozen=True, slots=True)
class Scene:
    """One message's story. `via` is the event on its way to its `end`, both as in the timeline, "" where there is none;
    `look` is the command shown at that moment, `commands` those given in the end, {} being the queue id. `told` are the
    mails that the daemon writes about it, by their event in the log. `header` are fields that the program adds. `burst`: so
    many bulk emails are handed over before it to the same server, and it must overtake them; `look` shows them."""

    title: str
    opening: str
    recipient: str
    subject: str
    end: str
    moral: str
    via: str = ""
    look: str = ""
    told: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    again: tuple[Again, ...] = ()
    commands: tuple[str, ...] = ("show {}",)
    burst: int = 0


def pretend_internet() -> Internet:
    unknown = {"nobody@friends.example": always("550 5.1.1 No such mailbox here")}
    stranger = {"bob@careful.example": once("451 4.7.1 I do not know you: come back later")}
    return Internet(
        {
            "shop.example": [MailServer("mx.shop.example")],
            "friends.example": [MailServer("mx.friends.example", unknown)],
            "careful.example": [MailServer("mx.careful.example", stranger)],
            "twins.example": [MailServer("mx1.twins.example", down=True), MailServer("mx2.twins.example")],
            "no-mail.example": [],
            "shaky.example": [MailServer("mx.shaky.example", drops=1)],
            "vague.example": [MailServer("mx.vague.example", mute=1)],
            "news.example": [MailServer("mx.news.example", pace=0.25)],
            "gone.example": [MailServer("mx.gone.example", down=True)],
        }
    )


SCENES = (
    Scene(
        title="A delivery",
        opening="A shop's program confirms an order. It talks to the daemon in plain SMTP, as every mail library does, and"
        " is done as soon as the daemon says 250: from then on the message is safe on disk, and its way is the"
        " daemon's business.",
        recipient="ann@friends.example",
        subject="Your order 1001",
        end="sent",
        moral="The daemon looked up which server takes mail for friends.example, and that server took it. The queue id in"
        " the daemon's 250 finds the message ever after, down to the id under which the remote server has it.",
    ),
    Scene(
        title="The same email twice: a duplicate",
        opening="A program that is not sure whether it has sent something sends it again. So it gives each email a name of"
        " its own, an idempotency key: the daemon takes one email of that name, however often it comes.",
        recipient="hugo@friends.example",
        subject="Your order 1002",
        end="sent",
        moral="One email, delivered once. It can be asked for by its key, which is remembered for 30 days after its end,"
        " over restarts and crashes.",
        header=("Idempotency-Key: order-1002-confirmation",),
        again=(
            Again(
                "The program was restarted before it had noted that this was done, and does it again:",
                "hugo@friends.example",
                "250 2.0.0 Ok: duplicate of {} (sent)",
            ),
            Again(
                "By a mistake in the program another customer's email has the same key. That is no duplicate:",
                "ivy@friends.example",
                "554 5.5.0 {} has this idempotency key",
            ),
        ),
        commands=("show order-1002-confirmation",),
    ),
    Scene(
        title="Not now: greylisting",
        opening="Some servers turn strangers away once, since spammers seldom come back. A mail system does.",
        recipient="bob@careful.example",
        subject="Your order 1003",
        end="sent",
        moral="The program never knew. (The wait is 1 minute by default, and doubles from attempt to attempt.)",
        via="deferred",
        look="queue",
    ),
    Scene(
        title="No such mailbox: a bounce",
        opening="The address has a typing mistake, and the remote server says so for good. Trying again would not help: the"
        " sender gets a bounce, and the postmaster, who looks after this machine's mail, a report.",
        recipient="nobody@friends.example",
        subject="Your order 1004",
        end="failed",
        moral="Both went out as mail, through the same spool and by the same rules.",
        told=("bounced", "reported"),
    ),
    Scene(
        title="The first server is down, the second takes it",
        opening="twins.example has two mail servers, and the preferred one is switched off.",
        recipient="cara@twins.example",
        subject="Your order 1005",
        end="sent",
        moral="The message went to the second one at once, without waiting.",
        via="attempt",
    ),
    Scene(
        title="A domain that takes no mail",
        opening='no-mail.example says so in its DNS ("null MX"). There is no server to try: the sender hears of it at once.',
        recipient="dan@no-mail.example",
        subject="Your order 1006",
        end="failed",
        moral="",
        told=("bounced",),
    ),
    Scene(
        title="In doubt: did it arrive?",
        opening="shaky.example's server reads the whole message and then hangs up without an answer. It may have the message"
        " or not; nobody can know. The daemon does not hide that.",
        recipient="eve@shaky.example",
        subject="Your order 1007",
        end="sent",
        moral="After a rest (10 minutes by default) the same message went to the same server again, as in_doubt ="
        ' "retry" says; with "hold" a person decides. The pretend server had lost the first copy, so there is only one.',
        via="in_doubt",
        look="queue",
    ),
    Scene(
        title="In doubt, and a person decides",
        opening="The same breakdown at vague.example, but this email must on no account arrive twice, and the program says"
        ' so: "hold". Nothing is sent again, and the postmaster is called at once.',
        recipient="gina@vague.example",
        subject="Your order 1008",
        end="in_doubt",
        moral="The postmaster asked Gina, who has it. (With --resend it would have been sent again.)",
        told=("alerted",),
        header=("X-MTA-In-Doubt: hold",),
        commands=("dead", "resolve {} --sent", "show {}"),
    ),
    Scene(
        title="A code overtakes a burst",
        opening="A newsletter goes out to forty readers at news.example, whose server takes a quarter of a second for each,"
        " in at most 4 sessions. In the middle of it somebody there wants to log in, and waits for a code.",
        recipient="kim@news.example",
        subject="Your order 1009: your code",
        end="sent",
        moral='A newsletter says "Precedence: bulk", a code "Priority: urgent" or MT-PRIORITY=1 in MAIL. One of the 4'
        " sessions is kept for urgent mail ([lanes] in the configuration). The newsletter goes on all the while, and gets"
        " its share however many codes there are.",
        look="status",
        header=("Priority: urgent",),
        burst=40,
    ),
    Scene(
        title="Giving up",
        opening="gone.example has one mail server, and nobody is there. The daemon tries again and again, less and less"
        " often, until the message is too old (5 days by default, 6 seconds here).",
        recipient="fred@gone.example",
        subject="Your order 1010",
        end="dead",
        moral="A message that is given up is never dropped silently: the sender gets a bounce, the postmaster an alert, and"
        " the message stays on the list of those that need a person.",
        via="deferred",
        look="status",
        told=("bounced", "alerted"),
        commands=("show {}", "dead"),
    ),
)
