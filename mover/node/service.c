/* SPDX-License-Identifier: MIT */
/* service - see service.h. */
#include "mover/node/service.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "mover/base/fault.h"
#include "mover/node/node.h"

/* Each of them that has this function. */
#define EACH(e, i, function) \
	for (unsigned i = 0; i < (e)->service_count; i++) \
		if ((e)->env.services[i]->function)

void *fm_service_state(const struct fm_engine *e, const struct fm_service *service)
{
	for (unsigned i = 0; i < e->service_count; i++)
		if (e->env.services[i] == service)
			return e->service_state[i];
	assert(false && "this engine has no such service");
	return NULL;
}

int fm_services_init(struct fm_engine *e, struct fm_err *err)
{
	const struct fm_service *const *services = e->env.services;

	for (unsigned i = 0; services && services[i]; i++) {
		const struct fm_service *service = services[i];
		void *state;

		assert(i < FM_SERVICES_MAX);
		/* A byte more, for one that keeps nothing. */
		state = FM_FAULT("engine.service") ? NULL : calloc(1, service->state_bytes + 1);
		if (!state) {
			fm_services_free(e);
			return fm_err_sys(err, -ENOMEM, "allocate the service %s", service->name);
		}
		e->service_state[i] = state;
		e->service_count++;
		if (service->init)
			service->init(state);
	}
	return 0;
}

void fm_services_free(struct fm_engine *e)
{
	while (e->service_count > 0) {
		const struct fm_service *service = e->env.services[--e->service_count];
		void *state = e->service_state[e->service_count];

		if (service->end)
			service->end(state);
		free(state);
	}
}

void fm_services_peer_up(struct fm_peer *p)
{
	EACH(p->engine, i, peer_up)
		p->engine->env.services[i]->peer_up(p);
}

void fm_services_peer_unreachable(struct fm_peer *p, const struct fm_err *err)
{
	EACH(p->engine, i, peer_unreachable)
		p->engine->env.services[i]->peer_unreachable(p, err);
}

void fm_services_session_changed(struct fm_engine *e, struct fm_session *s)
{
	EACH(e, i, session_changed)
	e->env.services[i]->session_changed(s);
}

void fm_services_session_lost(struct fm_engine *e, struct fm_session *s, const struct fm_err *err)
{
	EACH(e, i, session_lost)
	e->env.services[i]->session_lost(s, err);
}

bool fm_services_are_on(const struct fm_engine *e, const struct fm_session *s)
{
	EACH(e, i, is_on)
	if (e->env.services[i]->is_on(s))
		return true;
	return false;
}

void fm_services_tick(struct fm_engine *e, uint64_t now_ns)
{
	EACH(e, i, tick)
		e->env.services[i]->tick(e, now_ns);
}

void fm_services_stop(struct fm_engine *e)
{
	EACH(e, i, stop)
		e->env.services[i]->stop(e);
}

bool fm_services_are_idle(const struct fm_engine *e)
{
	EACH(e, i, is_idle)
		if (!e->env.services[i]->is_idle(e))
			return false;
	return true;
}

bool fm_services_are_working(const struct fm_engine *e)
{
	EACH(e, i, is_working)
		if (e->env.services[i]->is_working(e))
			return true;
	return false;
}

bool fm_services_await_callers(const struct fm_engine *e)
{
	EACH(e, i, is_idle) {
		const struct fm_service *service = e->env.services[i];

		if (service->is_idle(e))
			continue;
		if (!service->awaits_callers || !service->awaits_callers(e))
			return false;
	}
	return true;
}
