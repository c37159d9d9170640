"""Speeds that are compared: jobs that alternate on this machine."""

import statistics
import time


def alternate(jobs, rounds):
    """Runs the jobs by turns: {name: work per second, the median of the rounds}.

    `jobs` is {name: function that returns an amount of work}. A first round, in which memory is
    taken and kernels are chosen, is not counted.
    """
    speeds = {name: [] for name in jobs}
    for turn in range(rounds + 1):
        for name, job in jobs.items():
            began = time.perf_counter()
            work = job()
            if turn:
                speeds[name].append(work / (time.perf_counter() - began))
    return {name: statistics.median(values) for name, values in speeds.items()}
