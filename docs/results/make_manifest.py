"""Write down what stands behind the figures of experiments: data, settings, versions, cards; not each single run.

python docs/results/make_manifest.py RUNS [EXPERIMENT ...] > manifest.json
"""

import argparse
import json
from pathlib import Path

from fresh.experiment.folder import Runs
from fresh.experiment.manifest import manifest
from fresh.experiment.results import read_results


def main() -> None:
    """Read the reports and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("experiments", nargs="*", default=["main"])
    args = parser.parse_args()
    told = {name: manifest(read_results(Runs(args.runs), name)) for name in args.experiments}
    seeds = {name: sorted({run["seed"] for run in about.pop("each")}) for name, about in told.items()}
    print(json.dumps({name: {"seeds": seeds[name], **about} for name, about in told.items()}, indent=1))


if __name__ == "__main__":
    main()
