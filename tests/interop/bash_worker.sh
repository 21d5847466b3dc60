#!/usr/bin/env bash
# A worker of shell and socat: a connection for each request, closed for writing after it. Prints the jobs it was given
# and ends when there are none. Usage: bash_worker.sh SOCKET
set -euo pipefail

request="READY"
while true; do
  reply=$(printf '%s\n' "$request" | socat -t5 - "UNIX-CONNECT:$1")
  read -r word attr_path payload <<<"$reply" || true
  case "$word" in
    JOB)
      echo "$attr_path $payload"
      # The job itself: its exit code is the length of its payload.
      request="DONE $attr_path ${#payload}"
      ;;
    NOJOBS) exit 0 ;;
    *) echo "unexpected reply: $reply" >&2; exit 1 ;;
  esac
done
