"""The CPU runtime's batch loop: each thread of a job decodes and processes images, without the GIL, until none is left.

Threads claim images with an atomic counter, see :mod:`.team`. :mod:`.records` defines what the host fills for the loop.
"""

from typing import Final

import numpy as np

from ..compiled import cached_jit
from ..exact import EXACT
from ..jpeg.decode import call_decode
from ..jpeg.encode import ENCODING, call_encode
from ..jpeg.layout import DONE, HEADER, PROGRESSIVE, RECODED, STATUS, TABLE
from ..layout import RECORD, SCALES
from ..prepass import AREA
from ..scalar import f32, loop
from .clock import now
from .exact import call_resize
from .intrinsics import add_to, address_of, bytes_at, bytes_of, copy, floats_at, longs_at, records_at, records_of
from .prepass import call_area
from .records import (
    BATCH,
    CALLS,
    ENCODED,
    FLIP_COLUMNS,
    FLIP_ROWS,
    IMAGE,
    JOB,
    OFFER,
    PASS,
    PIXELS,
    SCRATCH,
    STORED,
    SWAP,
    TEAM,
    THREAD,
    UNPADDED,
)
from .run import run_image
from .team import (
    end_job,
    end_workers,
    has_images,
    join_job,
    leave_job,
    leave_place,
    offer_job,
    oldest,
    stop_job,
    wait_for_job,
    wait_for_place,
    withdraw_job,
)
from .vectors import SOURCE_SLACK

i64 = np.int64

_REGION_BYTES: Final = 32  # of x0, y0, x1, y1
_FLOAT_BYTES: Final = 4
_BYTE_SCALE: Final = SCALES["uint8"]

_records_at = records_at(RECORD)
_calls_at = records_at(CALLS)
_exact_at = records_at(EXACT)
_areas_at = records_at(AREA)
_stored_at = records_at(STORED)
_encodings_at = records_at(ENCODING)
_tables_of = records_of(TABLE)
_jobs_at, _batches_at, _images_at, _passes_at, _headers_at, _statuses_at, _scratch_at, _threads_at = map(
    records_at, (JOB, BATCH, IMAGE, PASS, HEADER, STATUS, SCRATCH, THREAD)
)


@loop
def _set_stored_region(image, region):
    """Fill in the region of the stored image that an image's region is, once turned."""
    x0, y0, x1, y1 = image.region[0], image.region[1], image.region[2], image.region[3]
    # From the image as shown back to the image as stored: the turn's steps in reverse. A turn exchanges the sides
    # first, so shown_size serves the flips here.
    if image.turn & FLIP_COLUMNS:
        x0, x1 = image.shown_size[1] - x1, image.shown_size[1] - x0
    if image.turn & FLIP_ROWS:
        y0, y1 = image.shown_size[0] - y1, image.shown_size[0] - y0
    if image.turn & SWAP:
        x0, y0, x1, y1 = y0, x0, y1, x1
    region[0], region[1], region[2], region[3] = x0, y0, x1, y1


@loop
def _copy_turned(stored, height, width, channels, turn, out):
    """Copy stored pixels to the orientation that is shown; ``height`` and ``width`` are those after turning."""
    # Steps, in stored pixels, to the shown pixel below and to the right.
    down, across = (1, height) if turn & SWAP else (width, 1)
    start = 0
    if turn & FLIP_ROWS:
        start += (height - 1) * down
        down = -down
    if turn & FLIP_COLUMNS:
        start += (width - 1) * across
        across = -across
    for y in range(height):
        for x in range(width):
            at = (start + y * down + x * across) * channels
            to = (y * width + x) * channels
            for c in range(channels):
                out[to + c] = stored[at + c]


@loop
def _region_size(image):
    return image.region[3] - image.region[1], image.region[2] - image.region[0]


@loop
def _decode(batch, image, header, scratch, thread, status, out):
    """Decode the region of an image into ``out``, in the orientation that is shown."""
    request = thread.request
    request.data, request.size = image.data, image.size
    request.scale, request.channels = image.scale, batch.channels
    request.row_maker = batch.row_maker
    _set_stored_region(image, request.region)
    # One field after the other: Numba copies no records.
    stored, work = bytes_of(scratch.stored), bytes_of(scratch.work)
    # Decoded in place where the stored orientation is the shown one, otherwise through scratch memory.
    to = stored if image.turn else out
    request.books = batch.books
    decoder = batch.decoder
    if header.kind == PROGRESSIVE:
        decoder = batch.progressive_decoder
    elif header.kind == RECODED:
        decoder = batch.recoded_decoder
    call_decode(decoder, (header, request, to, _tables_of(scratch.tables), work, work.size, status))
    if image.turn and status.result == DONE:
        height, width = _region_size(image)
        _copy_turned(stored, height, width, batch.channels, image.turn, out)


@loop
def _run_passes(i, image, passes, source, row, scratch, streamed):
    """Run image ``i`` through its passes, from its first one on.

    ``source`` describes its pixels, ``row`` is the number of elements from one row of them to the next.
    """
    last = passes.size - 1
    # Results between passes alternate between the two halves of a buffer.
    between = bytes_of(scratch.between)
    half = between.size // 2
    side = 0
    for p in range(image.first_pass, passes.size):
        one, x, y = passes[p], i64(0), i64(0)
        if p < last and one.exact == 0:  # a part of the result; of an exact resize only that is computed
            region = longs_at(passes[p + 1].regions + i * _REGION_BYTES, 4)
            x, y = region[0], region[1]
        if one.exact:
            exact, stored = _exact_at(one.exact, i + 1)[i], _stored_at(one.stored, i + 1)[i]
            width = exact.part[2] - exact.part[0]
            size = one.channels * width * (exact.part[3] - exact.part[1])
            out = bytes_at(image.out, image.out_bytes) if p == last else between[side * half : side * half + size]
            pixels, work = bytes_at(source.address, source.elements), bytes_of(scratch.exact)
            call_resize(
                one.resize, (pixels, pixels.size, row, one.channels, exact, work, work.size, out, stored, one.store,
                streamed and p == last)
            )  # fmt: skip
            if p == last:
                return
        elif one.areas:
            area = _areas_at(one.areas, i + 1)[i]
            if area.applies == 0 and p < last:  # what follows reads a part of the same pixels
                corner = y * row + x * source.channels
                source.address += corner * (_FLOAT_BYTES if source.scale == f32(1.0) else 1)
                source.elements -= corner
                continue
            width, size = i64(area.out_width), one.itemsize * one.channels * area.out_height * area.out_width
            out = bytes_at(image.out, image.out_bytes) if p == last else between[side * half : side * half + size]
            work = bytes_of(scratch.area)
            call_area(
                one.apply,
                (source.address, source.elements, source.scale, row, one.channels, area, work, work.size, out),
            )
            if p == last:
                return
        else:
            record = _records_at(one.records, i + 1)[i]
            program = floats_at(one.programs + i * _FLOAT_BYTES * one.program_words, one.program_words)
            calls = _calls_at(one.float_calls if source.scale == f32(1.0) else one.byte_calls, 1)[0]
            record.stride = row
            width = record.width
            size = one.itemsize * one.channels * record.height * width
            out = bytes_at(image.out, image.out_bytes) if p == last else between[side * half : side * half + size]
            run_image(calls, source, record, program, one, scratch, out, streamed and p == last)
            if p == last or size == 0:
                continue
        # The result of this segment is the source of the next one, which writes the other half.
        side = 1 - side
        row = width * one.channels
        corner = y * row + x * one.channels
        source.channels = one.channels
        source.address, source.elements = address_of(out) + one.itemsize * corner, size // one.itemsize - corner
        source.scale = f32(1.0)
        if one.itemsize == 1:
            source.scale = _BYTE_SCALE
            source.elements += SOURCE_SLACK


@loop
def _find_source(batch, image, header, scratch, thread, status, out):
    """Fill in ``thread.source`` with an image's pixels, decoded to ``out`` where that is the result, else to scratch.

    ``source.elements`` includes elements after the region that may be read. They decide which of two loops, whose sums
    round differently, samples the last pixels, so their number must not depend on where the pixels come from.
    """
    kind, source = image.kind, thread.source
    source.channels, source.scale = batch.channels, batch.scale
    if kind == PIXELS:
        source.address, source.elements = image.source, image.elements
        return
    height, width = _region_size(image)
    size = height * width * batch.channels
    if kind == UNPADDED:  # is copied to memory that may be read past its end
        size = image.elements
    to = (bytes_of(scratch.source) if out.size == 0 else out)[:size]
    if kind == ENCODED:
        begin = now(thread.time)
        _decode(batch, image, header, scratch, thread, status, to)
        thread.decoding += now(thread.time) - begin
    elif kind == UNPADDED:
        copy(bytes_at(image.source, size), to)
    else:
        for k in range(size):
            to[k] = 0
    source.address, source.elements = address_of(to), size + SOURCE_SLACK


@loop
def _run_views(i, images, passes, encodings, scratch, thread, streamed):
    """Run an image and the images linked to it by ``next_view``, which read the same pixels, through their passes.

    Encode the results, or without passes the pixels, if there are ``encodings``.
    """
    source = thread.source
    # Passes overwrite the source with their results, so each view begins with the image's own again.
    address, elements, channels, scale = source.address, source.elements, source.channels, source.scale
    row = images[i].row
    while i >= 0:
        image = images[i]
        corner = image.corner[1] * row + image.corner[0] * channels  # in bytes: only sources of uint8 have views
        source.address, source.elements = address + corner, elements - corner
        source.channels, source.scale = channels, scale
        pixels, stride = source.address, row
        if encodings.size and passes.size:
            image.out = pixels = scratch.result.address
            stride = encodings[i].width * encodings[i].channels
        _run_passes(i, image, passes, source, row, scratch, streamed)
        if encodings.size:
            work, one = bytes_of(scratch.encode), encodings[i]
            call_encode(one.encoder, (bytes_at(pixels, stride), stride, one, work, work.size))
        i = image.next_view


@cached_jit("none(uint8[::1], ENCODING[::1], uint8[::1])", ENCODING=ENCODING)
def encode_pixels(pixels, encodings, work):
    """Encode one image without a job: its rows follow each other; ``work`` is scratch."""
    one = encodings[0]
    call_encode(one.encoder, (pixels, one.width * one.channels, one, work, work.size))


@loop
def _claim_images(job, member, until):
    """Claim images, decode and process each, until none is left or it is late; return whether none is left.

    ``member`` is this thread's number among those of the job.
    """
    scratch, thread = _scratch_at(job.scratch, member + 1)[member], _threads_at(job.threads, member + 1)[member]
    order, images = longs_at(job.order, job.size), _images_at(job.images, job.count)
    passes, batch = _passes_at(job.passes, job.pass_count), _batches_at(job.batch, 1)[0]
    encodings = _encodings_at(job.encodings, job.count if job.encodings else 0)
    start = now(thread.time)
    whole = False
    while add_to(job, "stop", 0) == 0:  # a plain load might be of any time
        at = add_to(job, "next", 1)
        if at >= order.size:
            whole = True
            break
        i = order[at]
        image, header = images[i], _headers_at(job.headers, i + 1)[i]
        status = _statuses_at(job.statuses, i + 1)[i]
        direct = passes.size == 0 and encodings.size == 0
        out = bytes_at(image.out, image.out_bytes if direct else 0)  # empty: decode to scratch
        _find_source(batch, image, header, scratch, thread, status, out)
        if status.result == DONE and not direct:
            _run_views(i, images, passes, encodings, scratch, thread, batch.streamed != 0)
        # After an image, so that each call completes at least one and a batch is always finished.
        if until != 0 and now(thread.time) > until:
            break
    thread.total += now(thread.time) - start
    return whole


@loop
def _deadline(thread):
    """Return the time after which no further image is claimed, 0 if there is none."""
    return now(thread.time) + thread.limit if thread.limit else 0


@cached_jit("boolean(JOB[::1], TEAM[::1], OFFER[::1], int64)", JOB=JOB, TEAM=TEAM, OFFER=OFFER)
def run_images(job_, team_, offers, member):
    """Claim images in an order that threads share, decode and process each; return whether none is left.

    Statuses are filled with the outcome of decoding; images that could not be decoded are not processed. Without
    passes the decoded pixels are the result. Workers help if the job wants some, and :func:`withdraw` must follow.
    """
    job, team = job_[0], team_[0]
    thread = _threads_at(job.threads, member + 1)[member]
    until = _deadline(thread)
    if thread.placed:
        return _claim_images(job, member, until)
    if job.helpers and not job.offer and has_images(job):
        offer_job(team, offers, job_)
    if wait_for_place(team, offers, job, False, until, thread.time):
        if _claim_images(job, member, until):
            end_job(team, offers, job)
        leave_place(team, offers)
    return add_to(job, "next", 0) >= job.size


@cached_jit("none(JOB[::1], OFFER[::1])", JOB=JOB, OFFER=OFFER)
def withdraw(job_, offers):
    """Wait until no worker is at a job any more; none begins a further image."""
    job = job_[0]
    if job.offer:
        withdraw_job(offers, job, _threads_at(job.threads, 1)[0].time)


@cached_jit("boolean(JOB[::1], TEAM[::1], OFFER[::1], int64)", JOB=JOB, TEAM=TEAM, OFFER=OFFER)
def enter(job_, team_, offers, member):
    """Join the threads that compute, before Python decodes images on this thread, until :func:`leave`.

    Return False if that takes too long, or after the job's ``stop``.
    """
    thread = _threads_at(job_[0].threads, member + 1)[member]
    if wait_for_place(team_[0], offers, job_[0], True, _deadline(thread), thread.time):
        thread.placed = 1
    return thread.placed != 0


@cached_jit("none(JOB[::1], TEAM[::1], OFFER[::1], int64)", nogil=False, JOB=JOB, TEAM=TEAM, OFFER=OFFER)
def leave(job_, team_, offers, member):
    """Leave them, if this thread is one."""
    thread = _threads_at(job_[0].threads, member + 1)[member]
    if thread.placed:
        thread.placed = 0
        leave_place(team_[0], offers)


@cached_jit("none(JOB[::1], TEAM[::1])", nogil=False, JOB=JOB, TEAM=TEAM)
def stop(job_, team_):
    """Let no more images of a job be claimed."""
    stop_job(team_[0], job_[0])


@cached_jit("none(TEAM[::1], OFFER[::1], int64[::1], int64)", TEAM=TEAM, OFFER=OFFER)
def help_jobs(team_, offers, scratch, patience):
    """Help with jobs until there was none for ``patience`` nanoseconds; ``scratch`` has two elements."""
    team = team_[0]
    found = wait_for_job(team, offers, now(scratch) + patience, scratch)
    while found >= 0:
        offer = offers[found]
        address, member = join_job(offer)
        if address:
            job = _jobs_at(address, 1)[0]
            if _claim_images(job, member, 0):
                end_job(team, offers, job)
            leave_job(offer)
        found = oldest(offers)
        if found < 0:
            leave_place(team, offers)
            found = wait_for_job(team, offers, now(scratch) + patience, scratch)


@cached_jit("none(TEAM[::1])", nogil=False, TEAM=TEAM)
def end_help(team_):
    """Let workers end that wait for jobs."""
    end_workers(team_[0])
