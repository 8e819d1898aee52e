/* SPDX-License-Identifier: MIT */
/*
 * fuzz_queue - any bytes as the file of a detached job: a job within its limits that is the same
 * when it is written down and read again, or refused with a line.
 *
 * links: fm_queue fm_transport fm_store
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/queue/queue_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static struct fm_queue *queue(void)
{
	static struct fm_queue *q;
	const struct fm_queue_config config = {
		.random = &fm_random_real, .node = "n1", .running_max = 1};
	struct fm_err err;

	if (!q)
		check(fm_queue_new(&config, &q, &err) == 0);
	return q;
}

static void check_job(const struct fm_queue_job *j)
{
	const struct fm_queue_opts *o = &j->o;

	check(o->is_detached && o->fd < 0 && o->journal < 0 && !o->job.file);
	check(o->end == FM_QUEUE_FD || o->end == FM_QUEUE_STORE);
	check(o->priority < FM_QUEUE_PRIORITY_COUNT && j->state <= FM_QUEUE_CANCELLED &&
	      j->seq > 0);
	check(strlen(o->job.path) == o->job.path_len && o->job.path_len <= FM_PATH_LEN_MAX);
	check(strlen(o->own_path) == o->own_path_len && o->own_path_len <= FM_PATH_LEN_MAX);
	check(strlen(o->file) == o->file_len && o->file_len <= FM_QUEUE_FILE_PATH_MAX);
	check(o->job.node[0] && o->job.store[0] &&
	      (o->end == FM_QUEUE_STORE) == (o->own_store[0] != '\0'));
	check(o->job.transport <= FM_WANT_TCP && o->job.durability <= FM_DURABILITY_MEMORY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char once[FM_QUEUE_FILE_BYTES_MAX], twice[FM_QUEUE_FILE_BYTES_MAX];
	struct fm_queue_job *j = NULL;
	struct fm_err err = { 0 };
	int len;

	if (fm_queue_decode(queue(), "aaaaaaaa", (const char *)data, size, &j, &err) < 0) {
		check(err.code < 0 && err.text[0]);
		return 0;
	}
	check_job(j);
	len = fm_queue_encode(j, once, sizeof(once));
	fm_queue_job_free(j);
	if (len < 0)		/* names that no request could have said */
		return 0;
	check(fm_queue_decode(queue(), "aaaaaaaa", once, (size_t)len, &j, &err) == 0);
	check(fm_queue_encode(j, twice, sizeof(twice)) == len &&
	      memcmp(once, twice, (size_t)len) == 0);
	fm_queue_job_free(j);
	return 0;
}
