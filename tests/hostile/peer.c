/* SPDX-License-Identifier: MIT */
/*
 * hostile_peer - a peer with a good key and bad manners, over the real transports.
 *
 *   hostile_peer --key FILE --name NAME --listen ADDRESS:PORT [--host ADDRESS] --to PORT --to-key
 * KEY [--seed N]
 * [--messages N]
 * [--seconds N] [--lie NAME [--of PATH] [--job ID]] [--version N]
 *
 * It speaks the protocol well enough to get everywhere (control connections, data connections with
 * the tokens it was given, puts of files and trees that the daemon publishes), and at every step
 * may do something else: any other message with any values, numbers that belong to others, bytes
 * changed, frames of wrong lengths, chunks into slots that it was not granted or that are in use,
 * packs rewritten while they are applied, silence, an end in the midst of everything. Beside that
 * it knocks as a stranger: bytes that are no protocol.
 *
 * With --lie it does nothing wrong but what lies.c says of staging runs, and its seconds begin when
 * it has heard of one; with --of of one whose source has this path, and it says nothing of others.
 * --job: it calls them so.
 * "is connected" is its first line then, when the daemon has a session with it: what is staged
 * from there on it hears of. --version: it greets as one that speaks only this version of the
 * protocol.
 *
 * It ends after so many messages, or seconds from its first session on, without a word, and prints
 * what it did. What becomes of the daemon, hostile.sh judges. Chances come from the seed; what they
 * meet at the daemon does not, so a seed repeats the kind of a run, not the run.
 */
#include <arpa/inet.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mover/base/base64.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "tests/hostile/peer.h"

/* bytes that wait for the daemon to read them: no more is said then */
#define QUEUE_MAX (256u << 10)
#define BURST	  32	       /* messages in one go */
#define TOKENS	  6	       /* data connections asked for at once */
#define LIE_NS	  (50 * FM_NS_PER_MS)
/* a session that takes longer never comes (HANG_S of tests/hang.sh) */
#define CONNECT_NS (400 * FM_NS_PER_S)

__attribute__((noreturn)) static void die(const char *what)
{
	(void)fprintf(stderr, "hostile_peer: %s\n", what);
	exit(1);
}

bool peer_is_over(struct peer *p)
{
	if (!p->is_over && (p->counts.messages + p->counts.data_messages >= p->messages_max ||
			    fm_loop_now(p->loop) >= p->until_ns)) {
		p->is_over = true;
		fm_loop_stop(p->loop);
	}
	return p->is_over;
}

/* ---- control connections ---- */

/* Bytes of a message that was good are hit; or it is cut, or grows. */
static size_t spoil(struct odds *o, uint8_t buf[FM_WIRE_MSG_MAX], size_t len)
{
	switch (below(o, 4)) {
	case 0:
		return 1 + below(o, len);
	case 1:
		return len + below(o, FM_WIRE_MSG_MAX - len + 1);
	default:
		for (unsigned n = 1 + (unsigned)below(o, 3); n > 0; n--)
			buf[below(o, len)] = (uint8_t)any_number(o);
		return len;
	}
}

void talk_say(struct talk *t, const struct fm_wire_msg *m)
{
	static uint8_t buf[FM_WIRE_MSG_MAX];
	struct peer *p = t->peer;
	size_t len;

	if (!t->ctl)
		return;
	len = fm_wire_encode(m, buf);
	if (one_in(&p->odds, 20 * t->manners))
		len = spoil(&p->odds, buf, len);
	(void)p->net->ops->ctl_send(t->ctl, buf, len);
	p->counts.messages++;
}

static void say_hello(struct talk *t)
{
	static const uint16_t conns[] = {0, 1, 2, UINT16_MAX};
	struct fm_wire_msg m = {.type = FM_WIRE_HELLO};
	struct odds *o = &t->peer->odds;
	bool is_liar = t->peer->lie != NULL, is_again = is_liar || !one_in(o, 8);

	if (t->is_dialled)
		t->session = below(o, 4);
	m.hello = (struct fm_wire_hello){.version_min = t->peer->version,
					 .version_max = t->peer->version,
					 .name = fm_wire_str(t->peer->name),
					 .session = t->is_dialled ? t->session : 1,
					 .tcp_conns = conns[is_liar ? 3 : below(o, 4)],
					 .rdma_conns = conns[is_liar ? 3 : below(o, 4)]};
	/* Mostly of the same run: of another one no session goes on. */
	for (unsigned i = 0; i < sizeof(m.hello.boot_id); i++)
		m.hello.boot_id[i] = is_again ? 7 : (uint8_t)odds_next(o);
	talk_say(t, &m);
}

/* Another connection of the same session: what it had is had here as well. */
static const struct talk *find_session(const struct talk *t, uint64_t session)
{
	struct peer *p = t->peer;
	unsigned first = (unsigned)below(&p->odds, TALKS_MAX);

	for (unsigned i = 0; i < TALKS_MAX; i++) {
		const struct talk *other = &p->talks[(first + i) % TALKS_MAX];

		if (other != t && other->session && other->is_dialled == t->is_dialled &&
		    (session == 0 || other->session == session))
			return other;
	}
	return NULL;
}

/* The daemon's session, or ours, is to go on here; where there is none, or with a wrong number, all
 * the same. */
static void say_resume(struct talk *t, uint64_t session)
{
	struct fm_wire_msg m = {.type = FM_WIRE_RESUME};
	struct odds *o = &t->peer->odds;
	const struct talk *before = find_session(t, session);

	t->session = session ? session : before ? before->session : 1;
	t->heard = before ? before->heard : 0;
	m.resume = (struct fm_wire_resume){
		.session = t->session, .count = t->heard, .order = ++t->peer->resumes};
	if (one_in(o, 8))
		m.resume.count = one_in(o, 2) ? below(o, t->heard + 1) : any_number(o);
	if (one_in(o, 8))
		m.resume.order = one_in(o, 2) ? 1 + below(o, t->peer->resumes) : any_number(o) | 1;
	talk_say(t, &m);
}

static bool is_counted(enum fm_wire_type type)
{
	return type != FM_WIRE_HELLO && type != FM_WIRE_PING && type != FM_WIRE_PONG &&
	       type != FM_WIRE_BYE && type != FM_WIRE_RECEIVED && type != FM_WIRE_RESUME;
}

/* Everything of it is at the daemon: say so, rightly or not. */
static void finish_deeds(struct talk *t)
{
	struct peer *p = t->peer;

	for (unsigned i = 0; i < DEEDS_MAX; i++) {
		struct deed *d = &p->deeds[i];
		struct fm_wire_msg m = {.type = FM_WIRE_FINISH};
		uint64_t size = d->is_tree ? d->count * d->chunk : d->bytes;

		if (d->talk != t || d->state != DEED_SENDING || d->sent < d->count ||
		    d->acked < d->count)
			continue;
		size = size > d->bytes ? size : d->bytes;
		m.finish = (struct fm_wire_finish){.flags = (uint16_t)one_in(&p->odds, 8),
						   .xfer = d->id,
						   .size = size,
						   .data_bytes = d->bytes,
						   .chunks = d->count,
						   .crc = fm_crc32c_whole(d->parts, size)};
		d->state = DEED_SENT;
		talk_say(t, &m);
	}
}

static void talk_close(struct talk *t)
{
	struct peer *p = t->peer;

	fm_timer_clear(p->loop, &t->timer);
	for (unsigned i = 0; i < DEEDS_MAX; i++)
		if (p->deeds[i].talk == t)
			p->deeds[i].state = DEED_NONE;
	p->net->ops->ctl_close(t->ctl);
	t->ctl = NULL;
	t->session = 0;
	if (!fm_timer_is_set(&p->dial_timer))
		fm_timer_set(p->loop, &p->dial_timer, after(p, below(&p->odds, 20) * FM_NS_PER_MS));
}

static void talk_fire(struct fm_timer *timer)
{
	static struct fm_wire_msg m;
	struct talk *t = fm_container_of(timer, struct talk, timer);
	struct peer *p = t->peer;
	unsigned count = 1 + (unsigned)below(&p->odds, BURST);

	if (peer_is_over(p))
		return;
	if (p->lie) {
		finish_deeds(t);
		if (p->net->ops->ctl_queued(t->ctl) < QUEUE_MAX)
			lie_tell(t);
		fm_timer_set(p->loop, &t->timer, after(p, LIE_NS));
		return;
	}
	t->is_mute = one_in(&p->odds, 1000);
	if (t->is_mute) {
		fm_timer_set(p->loop, &t->timer, after(p, 5 * FM_NS_PER_S));
		return;
	}
	if (one_in(&p->odds, 1000)) { /* it vanishes */
		talk_close(t);
		return;
	}
	finish_deeds(t);
	while (count-- > 0 && p->net->ops->ctl_queued(t->ctl) < QUEUE_MAX) {
		if (one_in(&p->odds, 8 * t->manners))
			word_any(p, &m);
		else
			word_request(t, &m);
		talk_say(t, &m);
	}
	fm_timer_set(p->loop, &t->timer, after(p, below(&p->odds, 6) * FM_NS_PER_MS));
}

static void talk_opened(void *ctx)
{
	struct talk *t = ctx;

	t->is_open = true;
	if (t->is_dialled && one_in(&t->peer->odds, 3) && find_session(t, 0))
		say_resume(t, 0);
	else
		say_hello(t);
	fm_timer_set(t->peer->loop, &t->timer,
		     after(t->peer, below(&t->peer->odds, 5) * FM_NS_PER_MS));
}

static void hear_deed(struct talk *t, const struct fm_wire_msg *in)
{
	struct peer *p = t->peer;

	for (unsigned i = 0; i < DEEDS_MAX; i++) {
		struct deed *d = &p->deeds[i];

		if (d->talk != t || d->state == DEED_NONE)
			continue;
		if (in->type == FM_WIRE_READY && d->id == in->ready.xfer &&
		    d->state == DEED_ASKED) {
			d->state = DEED_SENDING;
			d->chunk = in->ready.chunk < d->chunk ? in->ready.chunk : d->chunk;
		}
		if (in->type == FM_WIRE_DONE && d->id == in->done.xfer) {
			p->counts.files += !d->is_tree;
			p->counts.trees += d->is_tree;
			p->done = d->id;
			d->state = DEED_NONE;
		}
		if (in->type == FM_WIRE_ABORT && d->id == in->abort.xfer)
			d->state = DEED_NONE;
	}
}

static void ask_tokens(struct talk *t)
{
	struct fm_wire_msg m = {.type = FM_WIRE_TOKENS_WANT};

	if (t->has_lines)
		return;
	t->has_lines = true;
	m.tokens.count = TOKENS;
	talk_say(t, &m);
}

static void give_tokens(struct talk *t, unsigned count)
{
	static struct fm_wire_msg m;

	m.type = FM_WIRE_TOKENS;
	m.tokens.count =
		(uint16_t)(one_in(&t->peer->odds, 4 * t->manners) ? FM_WIRE_TOKENS_MAX : count);
	memset(m.tokens.token, 0x44, sizeof(m.tokens.token));
	talk_say(t, &m);
}

static void say_addrs(struct talk *t)
{
	struct fm_wire_msg m = {.type = FM_WIRE_ADDRS};

	m.addrs.tcp_port = fm_net_port(t->peer->net);
	m.addrs.rdma_port = m.addrs.tcp_port;
	talk_say(t, &m);
}

/* The daemon says its addresses first of all when a session is there. One that lies may lose it
 * again at once, so whoever asks the daemon may never see it. */
static void tell_connected(struct peer *p)
{
	if (p->is_told)
		return;
	p->is_told = true;
	if (!p->lie) {
		p->until_ns = fm_loop_now(p->loop) + p->run_ns;
		return;
	}
	(void)printf("%s: is connected\n", p->name);
	(void)fflush(stdout);
}

static void hear_resume(struct talk *t, const struct fm_wire_msg *in)
{
	t->peer->counts.resumed++;
	if (!t->is_dialled)
		say_resume(t, in->resume.session);
}

static void hear(struct talk *t, const struct fm_wire_msg *in)
{
	t->heard += is_counted(in->type);
	switch (in->type) {
	case FM_WIRE_HELLO:
		if (!t->is_dialled)
			t->session = in->hello.session;
		break;
	case FM_WIRE_RESUME:
		hear_resume(t, in);
		break;
	case FM_WIRE_TOKENS:
		for (unsigned i = 0; i < in->tokens.count; i++)
			line_dial(t, in->tokens.token[i]);
		break;
	case FM_WIRE_TOKENS_WANT:
		give_tokens(t, in->tokens.count);
		break;
	case FM_WIRE_ADDRS:
		tell_connected(t->peer);
		say_addrs(t);
		ask_tokens(t);
		break;
	case FM_WIRE_PUT:
		remember(t->peer, in->put.xfer);
		t->peer->counts.asked++;
		break;
	case FM_WIRE_GET:
		remember(t->peer, in->get.xfer);
		t->peer->counts.asked++;
		break;
	case FM_WIRE_STAGE:
		stage_hear(t, &in->stage);
		break;
	case FM_WIRE_REQUEST:
		t->peer->counts.asked++;
		break;
	default:
		hear_deed(t, in);
		break;
	}
}

static void talk_message(void *ctx, const uint8_t *msg, size_t len)
{
	static struct fm_wire_msg in, out;
	struct talk *t = ctx;

	if (fm_wire_decode(msg, len, &in) < 0)
		die("the daemon sent a message that is none");
	if (t->is_mute || one_in(&t->peer->odds, (in.type == FM_WIRE_PING ? 20 : 4) * t->manners)) {
		t->heard += is_counted(in.type);
		return; /* silence */
	}
	hear(t, &in);
	if (t->ctl && word_answer(t, &in, &out))
		talk_say(t, &out);
}

static void talk_closed(void *ctx, const struct fm_err *err)
{
	struct talk *t = ctx;

	(void)err;
	t->peer->counts.ended += t->is_open;
	talk_close(t);
}

static const struct fm_ctl_events talk_events = {
	.opened = talk_opened, .message = talk_message, .closed = talk_closed};

static struct talk *talk_new(struct peer *p, bool is_dialled)
{
	for (unsigned i = 0; i < TALKS_MAX; i++) {
		struct talk *t = &p->talks[i];

		if (t->ctl)
			continue;
		*t = (struct talk){.peer = p,
				   .timer = {.fire = talk_fire},
				   .is_dialled = is_dialled,
				   .next_id = 1,
				   .manners = p->lie ? MANNERS_GOOD
						     : 1u << (2 + below(&p->odds, 10))};
		p->counts.talks++;
		return t;
	}
	return NULL;
}

/* Mostly one, since the daemon keeps the last one only; sometimes as many as there may be. */
static void dial_fire(struct fm_timer *timer)
{
	struct peer *p = fm_container_of(timer, struct peer, dial_timer);
	unsigned open = 0, wanted = !p->lie && one_in(&p->odds, 4) ? TALKS_MAX : 1;
	struct talk *t;

	for (unsigned i = 0; i < TALKS_MAX; i++)
		open += p->talks[i].ctl != NULL;
	for (; open < wanted && !peer_is_over(p); open++) {
		t = talk_new(p, true);
		if (!t)
			return;
		p->dial.events = &talk_events;
		p->dial.ctx = t;
		t->ctl = p->net->ops->ctl_dial(p->net, &p->dial);
	}
}

/* ---- a stranger: no key, no protocol ---- */

static void knock(struct peer *p, int *fd)
{
	static const char *const greetings[] = {"", "FMDATA\r\n\1", "\x16\x03\x01\x02",
						"GET / HTTP/1.1\r\n\r\n", "FMDATA\r\n\1\0\0\0"};
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(p->dial.port),
				 .sin_addr.s_addr = inet_addr(p->dial.host)};
	struct odds *o = &p->odds;
	uint8_t bytes[400];
	size_t len = below(o, sizeof(bytes));
	const char *greeting = greetings[below(o, 5)];

	*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0 || connect(*fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		return;
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)odds_next(o);
	memcpy(bytes, greeting, strlen(greeting));
	(void)send(*fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	p->counts.strangers++;
}

static void stranger_fire(struct fm_timer *timer)
{
	struct peer *p = fm_container_of(timer, struct peer, stranger_timer);
	int *fd = &p->strangers[below(&p->odds, 4)];

	if (peer_is_over(p))
		return;
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	if (!one_in(&p->odds, 3))
		knock(p, fd);
	fm_timer_set(p->loop, timer, after(p, (20 + below(&p->odds, 200)) * FM_NS_PER_MS));
}

/* ---- its network ---- */

static bool net_is_known(void *ctx, const uint8_t key[FM_KEY_LEN])
{
	(void)ctx;
	(void)key;
	return true;
}

static bool net_accepted(void *ctx, struct fm_ctl *ctl, const uint8_t key[FM_KEY_LEN],
			 const struct fm_ctl_events **events, void **ctl_ctx)
{
	struct peer *p = ctx;
	struct talk *t = p->is_over ? NULL : talk_new(p, false);

	(void)key;
	if (!t)
		return false;
	t->ctl = ctl;
	*events = &talk_events;
	*ctl_ctx = t;
	talk_opened(t);
	return true;
}

static struct fm_domain *net_token(void *ctx, const uint8_t token[FM_TOKEN_LEN], enum fm_kind kind,
				   const uint8_t *key, void **tag, struct fm_err *why)
{
	struct peer *p = ctx;

	(void)why;
	(void)token;
	(void)kind;
	(void)key;
	*tag = NULL;
	return !p->lie && one_in(&p->odds, 10) ? NULL : p->domain;
}

static void net_arrived(void *ctx, void *tag, struct fm_conn *conn)
{
	(void)tag;
	if (conn)
		line_new(ctx, conn);
}

static const struct fm_net_events net_events = {.is_known = net_is_known,
						.accepted = net_accepted,
						.token = net_token,
						.arrived = net_arrived};

/* ---- the whole ---- */

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	if (*text == '\0' || *end != '\0')
		die("that is no number");
	return n;
}

struct options {
	struct fm_net_opts net;
	uint64_t seconds;
};

static void parse(int argc, char **argv, struct peer *p, struct options *opts)
{
	static const struct option longs[] = {
		{"key", 1, NULL, 'k'},	    {"name", 1, NULL, 'n'},    {"listen", 1, NULL, 'l'},
		{ "host", 1, NULL, 'h' },
		{ "to", 1, NULL, 't' },	    {"to-key", 1, NULL, 'K'},  {"seed", 1, NULL, 's'},
		{"messages", 1, NULL, 'm'}, {"seconds", 1, NULL, 'S'}, {"lie", 1, NULL, 'L'},
		{"version", 1, NULL, 'v'},  {"of", 1, NULL, 'o'},
		{"job", 1, NULL, 'j'},
		{NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'k':
			opts->net.key_file = optarg;
			break;
		case 'n':
			p->name = optarg;
			break;
		case 'l':
			opts->net.listen = optarg;
			break;
		case 'h':
			p->dial.host = optarg;
			break;
		case 't':
			p->dial.port = (uint16_t)number(optarg);
			break;
		case 'K':
			if (fm_base64_decode(FM_BASE64, optarg, p->dial.key, FM_KEY_LEN) < 0)
				die("that is no key");
			break;
		case 's':
			p->odds.state = number(optarg);
			break;
		case 'm':
			p->messages_max = number(optarg);
			break;
		case 'v':
			p->version = (uint16_t)number(optarg);
			break;
		case 'L':
			p->lie = lie_find(optarg);
			if (!p->lie)
				die("there is no such lie");
			break;
		case 'o':
			p->of = optarg;
			break;
		case 'j':
			if (strlen(optarg) != FM_WIRE_JOB_LEN)
				die("that is no id of a job");
			p->job = optarg;
			break;
		case 'S':
			opts->seconds = number(optarg);
			break;
		default:
			exit(2);
		}
	}
	if (!opts->net.key_file || !opts->net.listen || !p->dial.port || !p->name)
		die("--key, --name, --listen, --to and --to-key are needed");
}

static void set_up(struct peer *p, struct options *opts)
{
	size_t len = (size_t)LINES_MAX * 2 * REGION;
	struct fm_err err = {0};
	uint8_t *memory =
		mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || fm_loop_new(&(struct fm_loop_opts){0}, &p->loop, &err) < 0 ||
	    fm_net_new(p->loop, &opts->net, &p->net, &err) < 0 ||
	    p->net->ops->start(p->net, &net_events, p, &err) < 0 ||
	    p->net->ops->domain_new(p->net, &p->domain, &err) < 0)
		die(err.code ? err.text : "no memory");
	for (unsigned i = 0; i < LINES_MAX; i++)
		p->lines[i].memory = memory + (size_t)i * 2 * REGION;
	for (unsigned i = 0; i < 4; i++)
		p->strangers[i] = -1;
	p->dial.timeout_ns = 5 * FM_NS_PER_S;
	p->dial_timer.fire = dial_fire;
	p->stranger_timer.fire = stranger_fire;
	p->run_ns = opts->seconds * FM_NS_PER_S;
	p->until_ns = p->lie ? UINT64_MAX : fm_clock_real.now_ns(NULL) + CONNECT_NS;
	fm_timer_set(p->loop, &p->dial_timer, 0);
	if (!p->lie)
		fm_timer_set(p->loop, &p->stranger_timer, 0);
}

/* No goodbye: for the daemon it ends in the midst of everything. */
__attribute__((noreturn)) static void end(const struct peer *p)
{
	const struct counts *c = &p->counts;

	(void)printf("%s: %" PRIu64 " control and %" PRIu64 " data messages over %" PRIu64
		     " and %" PRIu64 " connections, %" PRIu64 " ended by the daemon, %" PRIu64
		     " went on elsewhere; %" PRIu64 " files and %" PRIu64
		     " trees done; asked by it %" PRIu64 " times; %" PRIu64
		     " strangers; %" PRIu64 " staging runs that it told of\n",
		     p->name, c->messages, c->data_messages, c->talks, c->lines, c->ended,
		     c->resumed, c->files, c->trees, c->asked, c->strangers, c->runs);
	(void)fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	static struct peer p = {.messages_max = UINT64_MAX,
			      .dial.host = "127.0.0.1",
			      .version = FM_WIRE_VERSION};
	struct options opts = {.net = {.is_tcp_allowed = true, .is_rdma_allowed = true},
			       .seconds = 3600};

	(void)signal(SIGPIPE, SIG_IGN);
	parse(argc, argv, &p, &opts);
	set_up(&p, &opts);
	fm_loop_run(p.loop);
	end(&p);
}
