import argparse

from fresh.cli.options import add_shared

SUMMARY = "Check certificates of explanations"
ABOUT = """\
Check certificates that `fresh explain --certify` wrote: no byte has changed,
the model has the same predictor, and the predictor gives the certified answers
to the certified words.

  fresh verify certificates.jsonl my-model
  fresh verify certificates.jsonl my-model --digest 4f0a...
  fresh verify certificates.jsonl my-model --key public.pem

Exit status: 0 if all certificates hold, 3 if not, and 1 if they cannot be
checked, for example because files of the model are missing or were changed.
"""
_FAILED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("certificates", metavar="CERTIFICATES", help="File that `fresh explain --certify` wrote")
    text = "Folder of the model or its predictor, or its name on the Hugging Face Hub"
    parser.add_argument("model", metavar="MODEL", help=text)
    text = "Expected digest of the predictor, as `fresh explain --certify` printed it"
    parser.add_argument("--digest", metavar="SHA256", help=text)
    parser.add_argument("--key", metavar="FILE", help="Ed25519 public key (PEM) of who must have signed them")
    add_shared(parser, "--device")


def run(args: argparse.Namespace) -> int:
    from fresh.audit.certificates.verify import verify
    from fresh.progress import Terminal

    verdict = verify(
        args.certificates, args.model, digest=args.digest, key=args.key, device=args.device, progress=Terminal()
    )
    print(verdict.to_text())
    return 0 if verdict.holds else _FAILED
