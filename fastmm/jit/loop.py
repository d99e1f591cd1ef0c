"""Whole runs of descent, block after block, in stretches of bounded work that can be taken up where they ended."""

from __future__ import annotations

from fastmm.jit.block import FROM_KEYS, G_P, RATES, SHIFTS, D, Doubles, E, N, P, T, load_instance
from fastmm.jit.compiling import compiled, part, unowned
from fastmm.jit.gradient import add_input, clear, overflown, set_scores
from fastmm.jit.lanes import WIDTH, integer, number, store
from fastmm.jit.rules import CUSTOM, MOVED, OVERFLOW, ZERO, apply_rule, move_lanes

STEPS, ZERO_GRADIENT, OVERFLOWN, INTERRUPTED = 0, 1, 2, 3  # as the compiled core counts its reasons

# The job is a table of integers too: counts and switches, then addresses of arrays with an axis of instances.
(COUNT, MOST_STEPS, RATES_EACH, RECORDS, RULE, LOSS, TRAIN_P, TRAIN_V) = range(8)
(
    DATA,  # (5, count) addresses
    POINTS_P,  # (count, d) in: starts, out: where the runs are
    POINTS_V,  # (count, e)
    JOB_RATES,  # (count, 1 or steps)
    RECORD,  # (records) step numbers
    RECORDED_P,  # (records, count, d)
    RECORDED_V,  # (records, count, e)
    STEPS_DONE,  # (count) integers
    REASONS,  # (count) integers
) = range(8, 17)
JOB_ENTRIES = 17

# The cursor of a worker: first instance of its block, end of its instances, steps taken (-1: not begun), next input,
# next record, whether all lanes go on; steps taken in all.
(AT, LAST, STEP, INPUT, ROW, TOGETHER, DONE) = range(7)
CURSOR_ENTRIES = 7


@compiled
def run_stretch(
    table: int, job: int, cursor: int, points: Doubles, states: Doubles, active: Doubles, budget: int
) -> bool:
    """Runs blocks from the cursor on; True when all is done, False when the budget is spent.

    The budget counts multiplications, about; what is done does not depend on it. `points` (4, width), `states`
    (2, lanes, size) and `active` (lanes) are memory of the worker; in `active`, 1 says that a lane still goes.
    """
    points, states, active = unowned(points), unowned(states), unowned(active)
    n, steps, last = integer(table, N), integer(job, MOST_STEPS), integer(cursor, LAST)
    rule, loss, train_p = integer(job, RULE), integer(job, LOSS), integer(job, TRAIN_P) != 0
    cost = integer(table, T) * (integer(table, D) + integer(table, E) + 8) * 2 * WIDTH
    left = budget
    while integer(cursor, AT) < last:
        step, i, row = integer(cursor, STEP), integer(cursor, INPUT), integer(cursor, ROW)
        if step < 0:
            _begin(table, job, cursor, states, active)
            step, i, row = 0, 0, 0
        going = True
        while step < steps and going:
            if i == 0:
                if row < integer(job, RECORDS) and integer(integer(job, RECORD), row) == step:
                    _write(table, job, cursor, row)
                    row += 1
                clear(table)
            while i < n:
                if left < 0:
                    store(cursor, STEP, step)
                    store(cursor, INPUT, i)
                    store(cursor, ROW, row)
                    _save(table, job, cursor, active, step)
                    return False
                add_input(table, i, loss, train_p)
                left -= cost
                i += 1
            i = 0
            if integer(job, RATES_EACH) > 1:
                _set_rates(table, job, cursor, step)
            together = integer(cursor, TOGETHER) != 0 and rule != CUSTOM
            if not (together and move_lanes(table, rule, n, train_p)):
                going = _move_apart(table, job, cursor, points, states, active, step)
            if integer(table, E) > 0:
                set_scores(table)
            step += 1
        _save(table, job, cursor, active, step)
        while row < integer(job, RECORDS):  # a run that ended stays where it is
            _write(table, job, cursor, row)
            row += 1
        store(cursor, AT, integer(cursor, AT) + WIDTH)
        store(cursor, STEP, -1)
    return True


@part
def _instance(cursor: int, lane: int) -> int:
    """The instance of a lane; lanes to spare repeat the first."""
    b: int = integer(cursor, AT) + lane
    return b if b < integer(cursor, LAST) else integer(cursor, AT)


@part
def _begin(table: int, job: int, cursor: int, states: Doubles, active: Doubles) -> None:
    d, e, count = integer(table, D), integer(table, E), integer(job, COUNT)
    for lane in range(WIDTH):
        b = _instance(cursor, lane)
        for k in range(5):
            store(integer(table, FROM_KEYS + k), lane, integer(integer(job, DATA), k * count + b))
        for j in range(d):
            store(integer(table, P), j * WIDTH + lane, number(integer(job, POINTS_P), b * d + j))
        for j in range(e):
            store(integer(table, P), (d + j) * WIDTH + lane, number(integer(job, POINTS_V), b * e + j))
        load_instance(table, lane)
        active[lane] = 1.0
        for k in range(states.shape[2]):
            states[0, lane, k] = 0.0
            states[1, lane, k] = 0.0
    if e > 0:
        set_scores(table)
    _set_rates(table, job, cursor, 0)
    store(cursor, TOGETHER, 1)


@part
def _set_rates(table: int, job: int, cursor: int, step: int) -> None:
    each = integer(job, RATES_EACH)
    for lane in range(WIDTH):
        rate = number(integer(job, JOB_RATES), _instance(cursor, lane) * each + min(step, each - 1))
        store(integer(table, RATES), lane, rate)


@part
def _write(table: int, job: int, cursor: int, row: int) -> None:
    """Records the iterates of all lanes."""
    d, e, count = integer(table, D), integer(table, E), integer(job, COUNT)
    for lane in range(min(WIDTH, integer(cursor, LAST) - integer(cursor, AT))):
        to = row * count + integer(cursor, AT) + lane
        for j in range(d):
            store(integer(job, RECORDED_P), to * d + j, number(integer(table, P), j * WIDTH + lane))
        for j in range(e):
            store(integer(job, RECORDED_V), to * e + j, number(integer(table, P), (d + j) * WIDTH + lane))


@part
def _save(table: int, job: int, cursor: int, active: Doubles, step: int) -> None:
    """Writes out the points of all lanes, and for those that still go the number of steps; with the last, a reason."""
    d, e = integer(table, D), integer(table, E)
    for lane in range(min(WIDTH, integer(cursor, LAST) - integer(cursor, AT))):
        b = integer(cursor, AT) + lane
        for j in range(d):
            store(integer(job, POINTS_P), b * d + j, number(integer(table, P), j * WIDTH + lane))
        for j in range(e):
            store(integer(job, POINTS_V), b * e + j, number(integer(table, P), (d + j) * WIDTH + lane))
        if active[lane] != 0.0:
            done = step - integer(integer(job, STEPS_DONE), b)
            store(cursor, DONE, integer(cursor, DONE) + done)
            store(integer(job, STEPS_DONE), b, step)
            if step == integer(job, MOST_STEPS):
                store(integer(job, REASONS), b, STEPS)


@part
def _move_apart(
    table: int, job: int, cursor: int, points: Doubles, states: Doubles, active: Doubles, step: int
) -> bool:
    """A step in each lane that still goes, or the reason why it ends; True while some lane goes."""
    d, e, n = integer(table, D), integer(table, E), integer(table, N)
    rule, train_p, memory = integer(job, RULE), integer(job, TRAIN_P) != 0, states.shape[2]
    going = False
    for lane in range(WIDTH):
        b = integer(cursor, AT) + lane
        if active[lane] == 0.0:
            continue
        x, g = integer(table, P), integer(table, G_P)
        for j in range(d + e):
            points[0, j] = number(x, j * WIDTH + lane)
            points[1, j] = number(g, j * WIDTH + lane)
        rate = number(integer(table, RATES), lane)
        moved_p, moved_v = ZERO, ZERO
        if train_p:
            shift = number(integer(table, SHIFTS), lane)
            state = states[0, lane, : memory if e == 0 else memory * d // max(d, e)]
            moved_p = apply_rule(rule, points[0, :d], points[1, :d], shift, n, rate, step, state)
            if moved_p == ZERO and overflown(table, lane):
                moved_p = OVERFLOW
        if e > 0:
            shift = number(integer(table, SHIFTS), WIDTH + lane)
            state = states[1, lane, : memory * e // max(d, e)]
            moved_v = apply_rule(rule, points[0, d : d + e], points[1, d : d + e], shift, n, rate, step, state)
        if moved_p != OVERFLOW and moved_v != OVERFLOW and (moved_p == MOVED or moved_v == MOVED):
            going = True
            for j in range(d + e):
                store(x, j * WIDTH + lane, points[0, j])
            continue
        active[lane] = 0.0
        store(cursor, TOGETHER, 0)
        if b < integer(cursor, LAST):
            overflow = moved_p == OVERFLOW or moved_v == OVERFLOW
            store(integer(job, REASONS), b, OVERFLOWN if overflow else ZERO_GRADIENT)
            done = step - integer(integer(job, STEPS_DONE), b)
            store(cursor, DONE, integer(cursor, DONE) + done)
            store(integer(job, STEPS_DONE), b, step)
    return going
