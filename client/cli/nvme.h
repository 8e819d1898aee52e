/* SPDX-License-Identifier: MIT */
/*
 * nvme - what the verbs of `fmove nvme` have in common: asking fmove-nvmed, options, texts of
 * targets and kernels on a terminal.
 */
#ifndef FM_CLIENT_NVME_H
#define FM_CLIENT_NVME_H

#include <stdint.h>

#include "client/cli/cmd.h"
#include "client/cli/nvmed.h"

struct fm_json;

/* Each verb's rows; its own keys begin at FM_NVME_KEY. */
#define FM_NVME_KEY_JSON 1
#define FM_NVME_KEY_SOCKET 2
#define FM_NVME_KEY 3

#define FM_NVME_JSON                                                                               \
	{                                                                                          \
		"json", 0, FM_NVME_KEY_JSON, NULL,                                                 \
			"the answer as one JSON object on standard output", NULL                   \
	}
#define FM_NVME_SOCKET \
	{ "socket", 0, FM_NVME_KEY_SOCKET, "PATH", \
	  "fmove-nvmed's socket (FMOVE_NVMED_SOCKET, else /run/fmove-nvmed/nvmed.sock)", "FILE" }

/*
 * One request on a connection of its own, and the exit status. On success show(done, ctx) prints,
 * or with is_json the answer is printed as it came; an error is said, and
 * either way if a restart forgets what was wished. wait_ms: see fm_nvmed_ask().
 */
int fm_nvme_ask(const char *verb, const struct fm_nvmed_request *request, uint64_t wait_ms,
		bool is_json, void (*show)(const struct fm_json *done, void *ctx), void *ctx);

/* The same; the exit status of success is what judge says of the answer, if there is one. */
int fm_nvme_ask_and_judge(const char *verb, const struct fm_nvmed_request *request,
			  uint64_t wait_ms, bool is_json,
			  void (*show)(const struct fm_json *done, void *ctx), void *ctx,
			  int (*judge)(const struct fm_json *done));

/* A value such as "60s" or "0", at most a day, in milliseconds; or -1 and the mistake was said. */
int fm_nvme_take_time(const struct fm_args *args, const char *option, uint64_t *ms);

/* On standard output, nothing in it that could move a terminal's cursor. fm_stdout_end() looks for
 * errors. */
void fm_nvme_put(const char *text);

/* The same, and blanks behind it up to width columns. */
void fm_nvme_put_column(const char *text, int width);

#endif
