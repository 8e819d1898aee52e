/* SPDX-License-Identifier: MIT */
/* line - see line.h. */
#include "mover/node/line.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/base/network.h"
#include "mover/node/session.h"

#define DIAL_TIMEOUT_NS (5 * FM_NS_PER_S)
#define CONNECT_TIMEOUT_NS FM_NS_PER_S	/* where there are other addresses to try */
#define RETRY_NS FM_NS_PER_S		/* after all of them, and after one that serves */
#define ANSWER_NS (5 * FM_NS_PER_S)	/* a peer that took the connection may be busy */
#define DOUBT_NS (5 * FM_NS_PER_S)	/* the dialler of a session that lives tries each second */
#define SILENT_NS (3 * FM_NS_PER_S)	/* with a PING every second */
#define TELL_BYTES (FM_LINE_KEPT_MAX / 8)

struct kept {
	struct fm_list at;
	size_t len;
	uint8_t msg[];
};

static struct fm_net *net_of(const struct fm_session *s)
{
	return s->engine->env.net;
}

/*
 * Whether a message is counted and kept, so that it can be sent again over another line. Messages
 * about the line itself are not.
 */
static bool counts(enum fm_wire_type type)
{
	return type != FM_WIRE_HELLO && type != FM_WIRE_PING && type != FM_WIRE_PONG &&
	       type != FM_WIRE_BYE && type != FM_WIRE_RECEIVED && type != FM_WIRE_RESUME;
}

void fm_lines_init(struct fm_lines *lines)
{
	fm_list_init(&lines->kept);
	fm_list_init(&lines->spares);
	fm_list_init(&lines->left);
}

struct fm_ctl *fm_line_ctl(const struct fm_session *s)
{
	return s->lines.main && !s->lines.is_resuming ? s->lines.main->ctl : NULL;
}

static void show_addr(const struct fm_addr *addr, char *out, size_t len)
{
	socklen_t sa_len = addr->sa.ss_family == AF_INET ? sizeof(struct sockaddr_in)
							 : sizeof(struct sockaddr_in6);

	if (getnameinfo((const struct sockaddr *)&addr->sa, sa_len, out, (socklen_t)len, NULL, 0,
			NI_NUMERICHOST) != 0)
		out[0] = '\0';
}

static void show_way(const struct fm_addr *local, const struct fm_addr *remote,
		     struct fm_session_way *out)
{
	(void)snprintf(out->device, sizeof(out->device), "%s", local->name);
	show_addr(local, out->local, sizeof(out->local));
	show_addr(remote, out->remote, sizeof(out->remote));
}

void fm_line_way(const struct fm_session *s, struct fm_session_way *out)
{
	struct fm_ctl *ctl = fm_line_ctl(s);
	struct fm_addr local, remote;

	*out = (struct fm_session_way){ .device = "" };
	if (!ctl)
		return;
	net_of(s)->ops->ctl_addrs(ctl, &local, &remote);
	show_way(&local, &remote, out);
}

void fm_line_lost_way(const struct fm_session *s, struct fm_session_way *out, bool *is_dead)
{
	struct fm_ctl *ctl = fm_line_ctl(s);
	struct fm_addr local = s->lines.local, remote = s->lines.remote;

	*out = (struct fm_session_way){ .device = "" };
	*is_dead = false;
	if (ctl)
		net_of(s)->ops->ctl_addrs(ctl, &local, &remote);
	if (local.sa.ss_family == AF_UNSPEC)
		return;
	show_way(&local, &remote, out);
	*is_dead = !fm_network_is_loopback(&local.sa) &&
		   !net_of(s)->ops->has_addr(net_of(s), &local.sa);
}

static void line_free(struct fm_session *s, struct fm_line **line)
{
	if (!*line)
		return;
	net_of(s)->ops->ctl_close((*line)->ctl);
	free(*line);
	*line = NULL;
}

/* ---- what is kept ---- */

static void forget_first(struct fm_lines *l)
{
	struct kept *k = fm_container_of(fm_list_pop(&l->kept), struct kept, at);

	l->kept_bytes -= sizeof(*k) + k->len;
	fm_share_give(&l->kept_share, sizeof(*k) + k->len);
	l->forgotten++;
	fm_budget_free(k);
}

static void forget(struct fm_lines *l, uint64_t count)
{
	while (l->forgotten < count && !fm_list_is_empty(&l->kept))
		forget_first(l);
}

/*
 * Makes room to keep a message until the peer has it. NULL: there is no memory, or the peer's share
 * is used up.
 */
static struct kept *kept_new(struct fm_session *s, size_t bytes)
{
	struct fm_share_id peer = fm_share_name(s->name);
	struct fm_share *share = &s->engine->kept;
	struct fm_lines *l = &s->lines;
	struct kept *k;

	while (!fm_share_may(share, peer, bytes) && !fm_list_is_empty(&l->kept))
		forget_first(l);
	if (fm_share_take(share, peer, bytes, &l->kept_share, NULL) < 0)
		return NULL;
	k = FM_FAULT("line.keep") ? NULL : fm_budget_alloc_link(bytes);
	if (!k)
		fm_share_give(&l->kept_share, bytes);
	return k;
}

static void keep(struct fm_session *s, const uint8_t *msg, size_t len)
{
	struct kept *k = kept_new(s, sizeof(*k) + len);
	struct fm_lines *l = &s->lines;

	l->sent++;
	if (!k) {	/* without it those before it are worth nothing either */
		forget(l, l->sent);
		l->forgotten = l->sent;
		return;
	}
	k->len = len;
	memcpy(k->msg, msg, len);
	fm_list_append(&l->kept, &k->at);
	l->kept_bytes += sizeof(*k) + len;
	while (l->kept_bytes > FM_LINE_KEPT_MAX)
		forget_first(l);
}

static int send_kept(struct fm_session *s)
{
	int ret = 0;

	fm_list_each(at, next, &s->lines.kept) {
		const struct kept *k = fm_container_of(at, struct kept, at);

		ret = net_of(s)->ops->ctl_send(s->lines.main->ctl, k->msg, k->len);
		if (ret < 0)
			break;
	}
	/* that comes as `closed` as well, and all is sent again on the next line */
	return ret == -EPIPE ? 0 : ret;
}

int fm_line_send(struct fm_session *s, enum fm_wire_type type, const uint8_t *msg, size_t len)
{
	struct fm_ctl *ctl = fm_line_ctl(s);

	/*
	 * Why it ends is said without the answer, too. A PING is what shows whether the cable still
	 * carries something: a cut is noticed only by what is sent into it.
	 */
	if ((type == FM_WIRE_BYE || type == FM_WIRE_PING) && s->lines.is_resuming)
		ctl = s->lines.main->ctl;
	if (s->lines.can_resume && counts(type))
		keep(s, msg, len);
	return ctl ? net_of(s)->ops->ctl_send(ctl, msg, len) : 0;
}

size_t fm_line_queued(const struct fm_session *s)
{
	struct fm_ctl *ctl = fm_line_ctl(s);

	return ctl ? net_of(s)->ops->ctl_queued(ctl) : s->lines.kept_bytes;
}

/* ---- what came ---- */

void fm_line_tell(struct fm_session *s)
{
	struct fm_wire_msg m = {.type = FM_WIRE_RECEIVED, .resume = {.count = s->lines.received}};

	if (!s->lines.can_resume || s->lines.told == s->lines.received || !fm_line_ctl(s))
		return;
	s->lines.told = s->lines.received;
	s->lines.told_bytes = 0;
	fm_session_send(s, &m);
}

void fm_line_count(struct fm_session *s, enum fm_wire_type type, size_t len)
{
	if (!s->is_up || !counts(type))
		return;
	s->lines.received++;
	s->lines.told_bytes += len;
	if (s->lines.told_bytes >= TELL_BYTES)
		fm_line_tell(s);
}

void fm_line_on_received(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_resume *m = &msg->resume;
	if (m->count > s->lines.sent)
		fm_session_protocol_error(s, "RECEIVED more than was sent");
	else
		forget(&s->lines, m->count);
}

/* ---- another line ---- */

static void end_session(struct fm_session *s, int code, const char *why)
{
	struct fm_err err = { 0 };

	(void)fm_err_set(&err, code, "%s: %s", s->name, why);
	fm_session_close(s, &err, why);
}

/* Takes the main line out of the session. NULL: it has none. */
static struct fm_line *take_main(struct fm_session *s)
{
	struct fm_lines *l = &s->lines;
	struct fm_line *line = l->main;

	if (!line)
		return NULL;
	if (!l->is_resuming)
		net_of(s)->ops->ctl_addrs(line->ctl, &l->local, &l->remote);
	l->is_resuming = false;
	l->is_gone = false;
	l->main = NULL;
	return line;
}

static void give_up_main(struct fm_session *s)
{
	struct fm_line *line = take_main(s);

	line_free(s, &line);
}

static void close_left(struct fm_session *s)
{
	struct fm_line *line = fm_container_of(fm_list_pop(&s->lines.left), struct fm_line, at);

	s->lines.left_count--;
	line_free(s, &line);
}

static void close_all_left(struct fm_session *s)
{
	while (!fm_list_is_empty(&s->lines.left))
		close_left(s);
}

static void spare_free(struct fm_line *spare)
{
	struct fm_session *s = spare->session;

	fm_list_del(&spare->at);
	s->lines.spare_count--;
	line_free(s, &spare);
}

/* No other way is looked for any more. */
static void free_spares(struct fm_session *s)
{
	s->lines.is_round = false;
	fm_list_each(at, next, &s->lines.spares)
		spare_free(fm_container_of(at, struct fm_line, at));
}

static void leave_main(struct fm_session *s)
{
	struct fm_line *line = take_main(s);

	if (!line)
		return;
	fm_list_append(&s->lines.left, &line->at);
	if (++s->lines.left_count > FM_LINES_LEFT_MAX)
		close_left(s);
}

static bool is_left(const struct fm_line *line)
{
	return !line->is_spare && line != line->session->lines.main;
}

static void say_resume(struct fm_session *s)
{
	struct fm_wire_msg m = {.type = FM_WIRE_RESUME,
				.resume = {s->lines.number, s->lines.received, s->lines.order}};
	size_t len = fm_wire_encode(&m, s->engine->buf);

	s->lines.told = s->lines.received;
	s->lines.told_bytes = 0;
	/* if not, no answer comes */
	(void)net_of(s)->ops->ctl_send(s->lines.main->ctl, s->engine->buf, len);
}

/*
 * Goes on over the new line, which both ends have. Data connections over the old line's cable are
 * cut at once: they would wait in vain.
 */
static void go_on(struct fm_session *s)
{
	struct fm_addr local, remote;
	struct fm_lines *l = &s->lines;

	fm_session_heard(s);
	l->retry_ns = s->heard_ns + RETRY_NS;
	l->is_nowhere = false;
	l->doubt.code = 0;
	fm_session_log(s, FM_LOG_INFO, "session with %s goes on over %s", s->name,
		       net_of(s)->ops->ctl_peer(l->main->ctl));
	close_all_left(s);
	free_spares(s);		/* of an acceptor that asked whether anybody listens */
	if (send_kept(s) < 0) {		/* one that is missing would be waited for without end */
		end_session(s, -ENOMEM, "out of memory for what it is to be sent again");
		return;
	}
	net_of(s)->ops->ctl_addrs(l->main->ctl, &local, &remote);
	fm_rail_session_moved(s, &l->local, &l->remote, &local, &remote);
}

static bool is_possible(const struct fm_session *s, uint64_t count)
{
	return count >= s->lines.forgotten && count <= s->lines.sent;
}

static struct fm_session *find_session(const struct fm_session *half,
				       const struct fm_wire_resume *m)
{
	fm_list_each(at, next, &half->engine->sessions) {
		struct fm_session *s = fm_container_of(at, struct fm_session, at);

		if (s->peer == half->peer && s->is_up && !s->is_closed && !s->is_dialler &&
		    s->lines.can_resume && s->lines.number == m->session &&
		    is_possible(s, m->count))
			return s;
	}
	return NULL;
}

static void take_line_of(struct fm_session *s, struct fm_session *half)
{
	struct fm_err err = { 0 };

	give_up_main(s);
	s->lines.main = half->lines.main;
	s->lines.main->session = s;
	half->lines.main = NULL;
	half->peer = NULL;	/* nobody lost it */
	(void)fm_err_set(&err, -EALREADY, "%s: it carries another session", s->name);
	fm_session_close(half, &err, NULL);
}

static void resume_asked(struct fm_session *half, const struct fm_wire_resume *m)
{
	uint64_t count = m->count, order = m->order;
	struct fm_session *s = find_session(half, m);

	if (!s) {
		end_session(half, -ESTALE,
			    "the session that it would go on with is not known here any more");
		return;
	}
	if (m->order <= s->lines.order) {
		end_session(half, -ESTALE, "a later connection carries the session already");
		return;
	}
	take_line_of(s, half);
	s->lines.order = order;
	forget(&s->lines, count);
	say_resume(s);
	go_on(s);
}

void fm_line_on_resume(struct fm_session *s, const struct fm_wire_msg *msg)
{
	const struct fm_wire_resume *m = &msg->resume;
	if (!s->is_up && !s->is_dialler) {
		resume_asked(s, m);
	} else if (!s->lines.is_resuming || m->session != s->lines.number) {
		fm_session_protocol_error(s, "RESUME that nobody asked for");
	} else if (!is_possible(s, m->count)) {
		end_session(
			s, -ECONNRESET,
			"the session cannot go on: too much was under way when its cable was cut");
	} else {
		s->lines.is_resuming = false;
		forget(&s->lines, m->count);
		go_on(s);
	}
}

/* ---- its events ---- */

static void dial_next(struct fm_session *s);
static void found_nothing(struct fm_session *s);

/* The session takes it instead of the one that it has. */
static void take_spare(struct fm_session *s, struct fm_line *spare)
{
	struct fm_lines *l = &s->lines;

	fm_list_del(&spare->at);
	l->spare_count--;
	spare->is_spare = false;
	free_spares(s);
	leave_main(s);
	l->main = spare;
	l->is_resuming = true;
	l->is_nowhere = false;
	l->retry_ns = 0;	/* this way led there: when it is cut, others may, too */
	l->order++;
	l->answer_ns = fm_engine_now(s->engine) + ANSWER_NS;
	say_resume(s);
}

static void line_opened(void *ctx)
{
	struct fm_line *line = ctx;
	struct fm_session *s = line->session;
	struct fm_lines *l = &s->lines;

	if (line == l->main) {
		fm_session_say_hello(s);
		return;
	}
	if (!s->is_dialler) {	/* somebody listens: the session may come back until doubt_ns */
		l->retry_ns = l->doubt_ns;
		free_spares(s);
		return;
	}
	take_spare(s, line);
}

static void line_message(void *ctx, const uint8_t *msg, size_t len)
{
	struct fm_line *line = ctx;

	if (!is_left(line))	/* it would come twice */
		fm_session_message(line->session, msg, len);
}

/* Whether an error is that of a cut cable. A peer that ends or is restarted gives another one. */
static bool is_network(int code)
{
	return code == -ETIMEDOUT || code == -EHOSTUNREACH || code == -ENETUNREACH ||
	       code == -ENETDOWN || code == -EHOSTDOWN;
}

/*
 * Whether the peer uses this session. A retired one, or one of a removed peer, does not go on over
 * another line.
 */
static bool is_in_use(const struct fm_session *s)
{
	return s->peer && s->peer->session == s;
}

static void main_was_reset(struct fm_session *s, const struct fm_err *err)
{
	struct fm_lines *l = &s->lines;

	fm_session_log(s, FM_LOG_INFO, "%s: %s; does the session go on over another connection?",
		       s->name, err->text);
	give_up_main(s);
	l->doubt = *err;
	l->doubt_ns = fm_engine_now(s->engine) + DOUBT_NS;
	fm_line_tick(s, fm_engine_now(s->engine));
}

static void spare_broke(struct fm_line *spare, const struct fm_err *err)
{
	struct fm_session *s = spare->session;
	struct fm_lines *l = &s->lines;

	fm_log_debug("%s: no other way: %s", s->name, err->text);
	spare_free(spare);
	l->is_refused |= err->code == -ECONNREFUSED;
	if (l->is_round)
		dial_next(s);
	else if (l->spare_count == 0)
		found_nothing(s);
}

static void line_closed(void *ctx, const struct fm_err *err)
{
	struct fm_line *line = ctx;
	struct fm_session *s = line->session;
	struct fm_lines *l = &s->lines;

	if (is_left(line)) {
		fm_list_del(&line->at);
		l->left_count--;
		line_free(s, &line);
	} else if (line->is_spare) {
		spare_broke(line, err);
	} else if (s->is_up && l->can_resume && (l->is_resuming || is_network(err->code))) {
		fm_session_log(s, FM_LOG_INFO, "%s: %s; the session waits for another connection",
			       s->name, err->text);
		give_up_main(s);
	} else if (s->is_up && l->can_resume && is_in_use(s) && err->code == -ECONNABORTED) {
		main_was_reset(s, err);
	} else {
		fm_session_broke(s, err);
	}
}

static const struct fm_ctl_events line_events = {
	.opened = line_opened,
	.message = line_message,
	.closed = line_closed,
};

/* ---- making them ---- */

static struct fm_line *dial(struct fm_session *s, const struct fm_reach_dial *to)
{
	struct fm_line *line = FM_FAULT("line.new") ? NULL : calloc(1, sizeof(*line));
	struct fm_ctl_dial d = { .host = to->to->host,
				 .port = to->to->port,
				 .events = &line_events,
				 .ctx = line,
				 .timeout_ns = DIAL_TIMEOUT_NS,
				 .connect_ns = s->peer->reach.count > 1 ? CONNECT_TIMEOUT_NS : 0,
				 .local = to->local };

	if (!line)
		return NULL;
	memcpy(d.key, s->peer->key, FM_KEY_LEN);
	line->session = s;
	line->ctl = net_of(s)->ops->ctl_dial(net_of(s), &d);
	if (line->ctl)
		return line;
	free(line);
	return NULL;
}

int fm_line_dial(struct fm_session *s, const struct fm_reach_dial *to)
{
	s->lines.main = dial(s, to);
	return s->lines.main ? 0 : -ENOMEM;
}

int fm_line_accept(struct fm_session *s, struct fm_ctl *ctl, const struct fm_ctl_events **events,
		   void **ctx)
{
	s->lines.main = FM_FAULT("line.new") ? NULL : calloc(1, sizeof(*s->lines.main));
	if (!s->lines.main)
		return -ENOMEM;
	*s->lines.main = (struct fm_line){ .session = s, .ctl = ctl };
	*events = &line_events;
	*ctx = s->lines.main;
	return 0;
}

void fm_line_end(struct fm_session *s)
{
	line_free(s, &s->lines.main);
	free_spares(s);
	close_all_left(s);
	while (!fm_list_is_empty(&s->lines.kept))
		forget_first(&s->lines);
}

/* Every address was tried, and nothing is under way to any. */
static void found_nothing(struct fm_session *s)
{
	if (s->lines.doubt.code && s->lines.is_refused)
		fm_session_broke(s, &s->lines.doubt);
	else
		s->lines.is_nowhere = s->is_dialler;
}

static struct fm_line *dial_spare(struct fm_session *s)
{
	struct fm_addr own[FM_ADDRS_MAX];
	struct fm_reach_dial to;
	struct fm_line *spare;

	if (!fm_reach_next(&s->peer->reach, own,
			   net_of(s)->ops->addrs(net_of(s), own, FM_ADDRS_MAX), &to))
		return NULL;
	spare = dial(s, &to);
	if (!spare)
		return NULL;
	spare->is_spare = true;
	fm_list_append(&s->lines.spares, &spare->at);
	s->lines.spare_count++;
	return spare;
}

/* The next address of this round; where there is none, the round is over. */
static void dial_next(struct fm_session *s)
{
	struct fm_lines *l = &s->lines;

	if (l->spare_count == FM_LINES_SPARE_MAX || dial_spare(s))
		return;
	l->is_round = false;
	l->retry_ns = fm_engine_now(s->engine) + RETRY_NS;
	if (l->spare_count == 0)
		found_nothing(s);
}

static void dial_round(struct fm_session *s)
{
	s->lines.is_refused = false;
	s->lines.is_round = true;
	fm_reach_begin(&s->peer->reach);
	dial_next(s);
}

/*
 * Twice a second while another way is looked for. Where a peer has one address, nothing is gained
 * by a second connection there.
 */
static void look_for_way(struct fm_session *s, uint64_t now_ns)
{
	const struct fm_lines *l = &s->lines;
	struct fm_ctl *ctl = fm_line_ctl(s);

	if (l->is_round) {
		dial_next(s);
		return;
	}
	if (now_ns < l->retry_ns || (l->spare_count > 0 && s->peer->reach.count == 1))
		return;
	if (ctl && l->spare_count == 0)
		fm_session_log(s, FM_LOG_INFO,
			       "%s: nothing goes to %s, or comes back; another connection is made",
			       s->name, net_of(s)->ops->ctl_peer(ctl));
	dial_round(s);
}

/*
 * Whether the network no longer answers. A peer that is only busy does not look like this: its
 * kernel still takes what is sent.
 */
static bool is_cut(const struct fm_session *s, struct fm_ctl *ctl)
{
	return s->lines.is_gone ||
	       (net_of(s)->ops->ctl_is_stuck && net_of(s)->ops->ctl_is_stuck(ctl));
}

/*
 * Whether the line carries nothing. A peer that is only silent may be busy. It loses nothing by
 * this: the line is given up only after the spare is open, and PINGs are answered during that
 * handshake too.
 */
static bool is_stuck(const struct fm_session *s, struct fm_ctl *ctl, uint64_t now_ns)
{
	return now_ns > s->heard_ns + SILENT_NS || is_cut(s, ctl);
}

/* Whether the answer to RESUME can still come. A busy peer receives RESUME and answers it later. */
bool fm_line_may_answer(const struct fm_session *s, uint64_t now_ns)
{
	const struct fm_lines *l = &s->lines;

	return l->is_resuming && now_ns <= l->answer_ns && !is_cut(s, l->main->ctl);
}

bool fm_line_is_moving(const struct fm_session *s)
{
	return !fm_line_ctl(s) || s->lines.is_gone;
}

/*
 * How long a silent session is waited for. The end that does not dial has to wait for the other
 * end, which first has to notice the silence, and then dials each address it knows, a dead one
 * twice. An end without another address cannot be reached in another way, so it waits no longer.
 */
static uint64_t patience_ns(const struct fm_session *s)
{
	struct fm_addr own[FM_ADDRS_MAX];
	size_t count = s->is_dialler ? 0 : net_of(s)->ops->addrs(net_of(s), own, FM_ADDRS_MAX);

	return SILENT_NS + (count > 0 ? (count + 2) * CONNECT_TIMEOUT_NS : 0);
}

bool fm_line_is_lost(const struct fm_session *s)
{
	const struct fm_lines *l = &s->lines;

	if (l->main && !l->is_gone)
		return false;
	return l->is_nowhere || fm_engine_now(s->engine) > s->heard_ns + patience_ns(s);
}

static bool is_from(const struct fm_session *s, const struct fm_addr *addr)
{
	const struct fm_line *line = s->lines.can_resume ? s->lines.main : NULL;
	struct fm_addr local, remote;

	if (!line)
		return false;
	net_of(s)->ops->ctl_addrs(line->ctl, &local, &remote);
	return fm_network_is_same(&local.sa, &addr->sa);
}

void fm_line_address_gone(struct fm_session *s, const struct fm_addr *gone)
{
	if (!is_from(s, gone))
		return;
	s->lines.is_gone = true;
	fm_line_tick(s, fm_engine_now(s->engine));
}

void fm_line_address_there(struct fm_session *s, const struct fm_addr *there)
{
	if (!s->is_dialler && is_from(s, there))
		s->lines.is_gone = false;
}

/*
 * The dialler brings the session back. This end dials too, to find out whether the peer was killed:
 * then nobody listens there, and the session ends at once.
 */
static void acceptor_tick(struct fm_session *s, uint64_t now_ns)
{
	struct fm_lines *l = &s->lines;

	if (!l->doubt.code)
		return;
	if (now_ns > l->doubt_ns)
		fm_session_broke(s, &l->doubt);
	else if (is_in_use(s))
		look_for_way(s, now_ns);
}

void fm_line_stood_still(struct fm_session *s, uint64_t still_ns)
{
	s->lines.answer_ns += still_ns;
	s->lines.doubt_ns += still_ns;
}

void fm_line_tick(struct fm_session *s, uint64_t now_ns)
{
	struct fm_lines *l = &s->lines;
	struct fm_ctl *ctl = fm_line_ctl(s);

	if (!s->is_closed && !s->is_dialler)
		acceptor_tick(s, now_ns);
	if (s->is_closed || !s->is_dialler || !l->can_resume || !is_in_use(s))
		return;
	if (fm_line_may_answer(s, now_ns))
		return;
	if (l->is_resuming)
		leave_main(s);
	if (ctl && !is_stuck(s, ctl, now_ns)) {
		free_spares(s);
		l->is_nowhere = false;
		return;
	}
	look_for_way(s, now_ns);
}
