"""`fresh verify`."""

import argparse

SUMMARY = "check certificates of answers"
FAILED = 3
"""Exit status where certificates do not hold."""
ABOUT = """\
Check certificates that `fresh explain --certify` wrote: every byte is as it was written, the model has the same
predictor, and the predictor, given the certified words again, gives the certified answers. Exit status 3 if not; 1 if
there is nothing to check, or nothing to check it with: files of the model are missing, changed or too many.

  fresh explain my-model --input reviews.csv --output explained.jsonl --certify certificates.jsonl
  fresh verify certificates.jsonl my-model
  fresh verify certificates.jsonl my-model --digest 4f0a...      # the predictor's, as you know it from elsewhere
"""


def add(parser: argparse.ArgumentParser, whole: bool) -> None:
    """Describe `fresh verify`."""
    parser.description = ABOUT
    parser.add_argument("certificates", metavar="CERTIFICATES", help="file that `fresh explain --certify` wrote")
    parser.add_argument(
        "model", metavar="MODEL", help="folder of the model or of its predictor, or its name on the hub"
    )
    parser.add_argument(
        "--digest",
        metavar="SHA256",
        help="the predictor's digest that you expect, as `fresh explain --certify` told it",
    )
    parser.add_argument("--device", default="auto", help="where to compute: auto, cpu, cuda, ... (default: auto)")


def run(args: argparse.Namespace) -> int:
    """Check certificates and say what was found."""
    from fresh.audit.certificates.verify import verify
    from fresh.progress import Terminal

    verdict = verify(args.certificates, args.model, digest=args.digest, device=args.device, progress=Terminal())
    print(verdict.to_text())
    return 0 if verdict.holds else FAILED
