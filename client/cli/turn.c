/* SPDX-License-Identifier: MIT */
/* turn - see turn.h. */
#include "client/cli/turn.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>

#include "client/cli/cmd.h"
#include "client/lib/fmove.h"
#include "client/cli/interrupt.h"
#include "mover/base/env.h"

#define PAUSE_MIN_NS (100 * FM_NS_PER_MS)
#define PAUSE_MAX_NS (2 * FM_NS_PER_S)
#define SAID_AFTER_NS FM_NS_PER_S
#define CONNECT_NS (30 * FM_NS_PER_S)	/* that nobody accepts for longer is no matter of turns */

void fm_turn_init(struct fm_turn *turn, const char *verb, bool is_quiet)
{
	*turn = (struct fm_turn){ .verb = verb, .is_quiet = is_quiet };
}

int fm_turn_connect(struct fm_turn *turn, struct fmove **out, struct fmove_error *err)
{
	uint64_t end_ns = fm_clock_real.now_ns(fm_clock_real.ctx) + CONNECT_NS, now_ns;
	int ret = fmove_connect(fm_socket_path(), out, err);

	for (unsigned refused = 1; ret < 0 && err->is_full; refused++) {
		now_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
		if (now_ns >= end_ns ||
		    !fm_turn_wait(turn, err, refused, (end_ns - now_ns) / FM_NS_PER_MS))
			break;
		ret = fmove_connect(fm_socket_path(), out, err);
	}
	if (ret == 0) {
		fmove_set_again(*out, fm_turn_wait, turn);
		fmove_set_cancel(*out, fm_interrupt_fd());
	}
	return ret;
}

/* least to twice that. */
static uint64_t about(uint64_t least)
{
	uint16_t r;

	fm_random_real.fill(fm_random_real.ctx, &r, sizeof(r));
	return least + least / UINT16_MAX * r;
}

static void say(struct fm_turn *turn, const struct fmove_error *why)
{
	char text[FMOVE_TEXT_MAX + 64];

	turn->is_said = true;
	if (turn->is_quiet)
		return;
	/* fits */
	(void)snprintf(text, sizeof(text), "%.20s: waiting: %s", turn->verb, why->text);
	if (turn->say)
		turn->say(turn->ctx, text);
	else
		fm_say("%s", text);
}

/* Waits. False: a signal came. One that is not caught has ended the process. */
static bool nap(uint64_t ns, uint64_t left_ms)
{
	struct pollfd signals = { fm_interrupt_fd(), POLLIN, 0 };
	uint64_t ms = ns / FM_NS_PER_MS;

	ms = ms < left_ms ? ms : left_ms;
	return poll(&signals, 1, (int)ms) <= 0 && !fm_is_interrupted();
}

bool fm_turn_wait(void *ctx, const struct fmove_error *why, unsigned refused, uint64_t left_ms)
{
	uint64_t now_ns = fm_clock_real.now_ns(fm_clock_real.ctx), pause_ns;
	struct fm_turn *turn = ctx;

	if (turn->is_off)
		return false;
	if (refused == 1) {
		turn->since_ns = now_ns;
		turn->pause_ns = PAUSE_MIN_NS;
	}
	if (now_ns - turn->since_ns >= SAID_AFTER_NS && !turn->is_said)
		say(turn, why);
	pause_ns = about(turn->pause_ns / 2);
	turn->pause_ns = turn->pause_ns < PAUSE_MAX_NS / 2 ? 2 * turn->pause_ns : PAUSE_MAX_NS;
	return nap(pause_ns, left_ms);
}
