#!/usr/bin/env bash
# publish.sh REPOSITORY: write its submissions as the website `site`, with the cost where the repository has prices,
# and who signed them where it has keys.
set -euo pipefail
prices=()
if [ -f "$1/prices.toml" ]; then
  prices=(--prices "$1/prices.toml")
fi
signers=()
if grep -qE '^[^#[:space:]]' "$1/allowed_signers"; then
  signers=(--signers "$1/allowed_signers")
fi
llmperf site "$1/submissions" -o site --title "Training benchmarks" "${prices[@]}" "${signers[@]}"
