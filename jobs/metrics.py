"""What happened in this process, counted for Prometheus.

One registry for the whole process, the client library's own, which each program exports at its
/metrics.  Labels are few, however much is submitted: never a job, a tenant or a key.
"""

from prometheus_client import Counter, Histogram

LEASES_LOST = Counter(
    "gristmill_leases_lost", "Leases that passed on while they were worked on.", ["reason"]
)
JOBS_EXPIRED = Counter("gristmill_jobs_expired", "Jobs whose window ended before their work did.")
STALE_COMMITS = Counter(
    "gristmill_stale_commit_rejected", "Writes refused because their lease had passed on."
)
RESCUED = Counter(
    "gristmill_rescued",
    "Shards taken from silent workers: those that are taken for dead, and those that were spared.",
    ["worker"],
)
POISON = Counter("gristmill_poison", "Requests answered with worker_lost.")
RESULTS_LOST = Counter("gristmill_results_lost", "Requests answered with result_lost.")
ROWS_RECOMPUTED = Counter(
    "gristmill_rows_recomputed",
    "Rows begun again, or for all we know: an attempt ended before them.",
)
BELLS_RUNG = Counter("gristmill_bells_rung", "Bells left on a queue.", ["queue"])
CLAIMS_EMPTY = Counter("gristmill_claims_empty", "Claims that found nothing to lease.")
FINALIZE_SECONDS = Histogram(
    "gristmill_finalize_seconds",
    "From a finalizer's lease to the end of its job.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300),
)
WEBHOOK_ATTEMPTS = Counter(
    "gristmill_webhook_attempts", "Webhooks tried, by the status that came back.", ["code"]
)
S3_ERRORS = Counter(
    "gristmill_s3_errors", "Calls of S3 that failed after their retries.", ["op", "code"]
)
OBJECTS_COLLECTED = Counter(
    "gristmill_objects_collected",
    "Objects deleted that nobody needs, and multipart writes ended that nobody completes.",
    ["kind"],
)

# Prometheus sees no increase in a number that appears with its first event.  Those that alarms wait
# for are there from the start.
LEASES_LOST.labels("passed on")
LEASES_LOST.labels("incarnation over")
RESCUED.labels("dead")
RESCUED.labels("spared")
