"""What is told of one timed pass over a workload, in the same words for whoever made it.

Needs nothing but Python, for peers run in environments of their own.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """wall_s, cpu_s, others_cpu_s: as a stopwatch says
    peak_rss_gib: of the process that made it, weights and all
    """

    requests: int
    prompt_tokens: int
    output_tokens: int
    wall_s: float
    cpu_s: float
    others_cpu_s: float
    peak_rss_gib: float

    def figures(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "output_tokens_got": self.output_tokens,
            "wall_s": round(self.wall_s, 4),
            "out_tok_s": round(self.output_tokens / self.wall_s, 1),
            "total_tok_s": round((self.prompt_tokens + self.output_tokens) / self.wall_s, 1),
            "peak_rss_gib": round(self.peak_rss_gib, 2),
            "cpu_s": round(self.cpu_s, 1),
            "others_cpu_s": round(self.others_cpu_s, 1),
        }
