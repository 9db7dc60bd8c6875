"""The team: all threads of a process that compute images on the CPU, whatever the call or the batch.

A job is the images of one call, which threads claim one by one. The thread of the call takes part; workers help, which
wait for jobs without Python, and go to the oldest one that has images left. No more than ``TEAM.most`` threads compute
at a time: while a batch uses all of them, the thread of the next one waits, until one finds no image left.

Nothing here is done for each image. Fields are changed atomically, and who may have to wait reads ``turn`` before what
it waits for: a change after that ends the wait.
"""

from ..scalar import loop
from .clock import now, wait, wake
from .intrinsics import add_to, address_of, field_address, set_to, swap_if

_CALLS, _WORKERS = 1, 2  # who waits: threads of calls for a place, and workers for jobs
_OFFERS, _BITS = 4, 28  # and the thread of an offered job for its end: one of these bits, from 4 on
_EVERY = 1 << 30  # more than all threads


# -- places among the threads that compute ---------------------------------------------------------------------------


@loop
def take_place(team):
    """Join the threads that compute; return False if there are enough."""
    while True:
        running = add_to(team, "running", 0)
        if running >= add_to(team, "most", 0):
            return False
        if swap_if(team, "running", running, running + 1):
            return True


@loop
def leave_place(team, offers):
    """Leave the threads that compute."""
    add_to(team, "running", -1)
    _offer_place(team, offers)


@loop
def _offer_place(team, offers):
    """Let a thread that waits take a place that is free: of a call, or else a worker if jobs have images left."""
    add_to(team, "turn", 1)
    if add_to(team, "waiting", 0) > 0:
        wake(field_address(team, "turn"), _CALLS, 1)
    elif add_to(team, "idle", 0) > 0 and oldest(offers) >= 0:
        wake(field_address(team, "turn"), _WORKERS, 1)


@loop
def has_images(job):
    """Return whether images of a job are left that no thread has claimed, and may be."""
    return add_to(job, "stop", 0) == 0 and add_to(job, "next", 0) < job.size


@loop
def wait_for_place(team, offers, job, in_python, until, scratch):
    """Join the threads that compute as soon as there are not enough; return whether that was before ``until``.

    Also return False once no image of the job is left, unless Python decodes them, or after its ``stop``.
    """
    while True:
        turn = add_to(team, "turn", 0)
        if add_to(job, "stop", 0) != 0 or not (in_python or has_images(job)):
            break
        if take_place(team):
            return True
        if until != 0 and now(scratch) > until:
            break
        add_to(team, "waiting", 1)
        wait(field_address(team, "turn"), turn, _CALLS | _bit_of(job), until, scratch)
        add_to(team, "waiting", -1)
    _offer_place(team, offers)  # it may have been offered to this thread
    return False


@loop
def _bit_of(job):
    """Return the bit of a job's offer, with which few others wait; 0 without one."""
    return _OFFERS << (job.offer - 1) % _BITS if job.offer else 0


@loop
def _call(team, kind, most):
    """Let threads that wait with a bit of ``kind`` look again."""
    add_to(team, "turn", 1)
    if add_to(team, "waiting", 0) + add_to(team, "idle", 0) > 0:
        wake(field_address(team, "turn"), kind, most)


@loop
def stop_job(team, job):
    """Let no more images of a job be claimed; its threads need not wait for a place."""
    set_to(job, "stop", 1)
    _call(team, _CALLS, _EVERY)


# -- jobs --------------------------------------------------------------------------------------------------------------


@loop
def offer_job(team, offers, job_):
    """Let workers help with a job; if there are as many offers, none do."""
    job = job_[0]
    for k in range(offers.size):
        offer = offers[k]
        if add_to(offer, "taken", 0) == 0 and swap_if(offer, "taken", 0, 1):
            set_to(offer, "number", add_to(team, "jobs", 1))
            set_to(offer, "job", address_of(job_))
            set_to(offer, "wanted", job.helpers)
            job.offer = k + 1
            _call(team, _WORKERS, job.helpers)
            return


@loop
def end_job(team, offers, job):
    """Let no more workers join a job of which no image is left; its thread need not wait for a place."""
    if job.offer:
        set_to(offers[job.offer - 1], "wanted", 0)
        _call(team, _bit_of(job), _EVERY)  # not all that wait for a place: who has waited longest is the next


@loop
def withdraw_job(offers, job, scratch):
    """Take a job back, and wait until all workers have left it."""
    offer = offers[job.offer - 1]
    set_to(offer, "wanted", 0)
    set_to(offer, "job", 0)
    while True:
        inside = add_to(offer, "inside", 0)
        if inside == 0:
            break
        wait(field_address(offer, "inside"), inside, _CALLS, 0, scratch)
    job.offer = 0
    set_to(offer, "taken", 0)


@loop
def oldest(offers):
    """Return the index of the offer with the oldest job that workers may join, -1 if there is none."""
    found, least = -1, 0
    for k in range(offers.size):
        offer = offers[k]
        if add_to(offer, "wanted", 0) > 0:
            number = add_to(offer, "number", 0)
            if found < 0 or number < least:
                found, least = k, number
    return found


@loop
def join_job(offer):
    """Return the address of the job in an offer and this worker's number among its threads, or 0 and 0."""
    add_to(offer, "inside", 1)  # from here on the job stays where it is
    job = add_to(offer, "job", 0)
    while job:
        wanted = add_to(offer, "wanted", 0)
        if wanted <= 0:
            break
        if swap_if(offer, "wanted", wanted, wanted - 1):
            return job, wanted
    leave_job(offer)
    return 0, 0


@loop
def leave_job(offer):
    """Leave the job in an offer."""
    if add_to(offer, "inside", -1) == 1 and add_to(offer, "job", 0) == 0:
        wake(field_address(offer, "inside"), _CALLS, _EVERY)


# -- workers -----------------------------------------------------------------------------------------------------------


@loop
def wait_for_job(team, offers, until, scratch):
    """Return the offer of a job, with a place among the threads that compute; -1 at a time or when workers end."""
    while True:
        turn = add_to(team, "turn", 0)
        found = oldest(offers)
        if found >= 0 and take_place(team):
            return found
        if add_to(team, "ending", 0) != 0 or now(scratch) >= until:
            return -1
        add_to(team, "idle", 1)
        wait(field_address(team, "turn"), turn, _WORKERS, until, scratch)
        add_to(team, "idle", -1)


@loop
def end_workers(team):
    """Let workers end."""
    set_to(team, "ending", 1)
    _call(team, _WORKERS, _EVERY)
